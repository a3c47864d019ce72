"""The store of results: what is written of a run, with which ids, and what is read from it."""
