"""Datasets that a language model builds."""
