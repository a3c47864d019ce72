"""Identity: hashes of code, so that a changed method or metric never counts as the old one. Results call it."""
