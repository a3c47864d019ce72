"""Statistics on arrays of per-query values. Comparisons, gates, scoring and the board call it."""
