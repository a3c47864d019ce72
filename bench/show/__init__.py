"""Numbers, tables and figures as bench shows them, for every reader and format. All rooms above call it."""
