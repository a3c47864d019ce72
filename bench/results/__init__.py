"""The store of results: the files of a run, their ids, and the functions that write and read them."""
