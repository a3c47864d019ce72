"""Texts into numbers: word tokens, wordpiece counts, embeddings."""
