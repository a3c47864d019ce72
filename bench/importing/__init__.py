"""Read tools and queries in the formats of other projects. `bench data import` and the Python API call it."""
