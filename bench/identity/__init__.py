"""Identity: hashes of code, so that a changed method or metric is never taken for the old one."""
