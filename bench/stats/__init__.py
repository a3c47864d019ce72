"""Statistics on per-query values: arrays in, numbers out; knows no files."""
