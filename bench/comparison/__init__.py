"""Evidence from stored results: comparisons with uncertainty, and explanations."""
