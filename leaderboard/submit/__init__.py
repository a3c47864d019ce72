"""Submissions: pack a result into an archive, and verify it by re-scoring."""
