"""Storage: paths, file locks, atomic replacement, caches, Arrow arrays."""
