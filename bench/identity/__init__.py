"""Identity: hashes of code, so that a changed method or metric never passes for the old one."""
