"""Submissions: pack a result into an archive, verify it by re-scoring, and run its method again in a sandbox."""
