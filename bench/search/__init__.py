"""Exact top-k search: by score matrix, by vectors, by sparse statistics. Methods call it."""
