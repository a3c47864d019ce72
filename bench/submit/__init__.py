"""Submissions: a stored result in one archive, and the check that makes its numbers again from its ranking."""
