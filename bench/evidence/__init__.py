"""Evidence from stored results: which system is better, by how much, how surely, and why."""
