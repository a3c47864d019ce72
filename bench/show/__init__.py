"""How bench shows things: numbers, tables and figures, for every reader and format."""
