"""Statistics on arrays of per-query values."""
