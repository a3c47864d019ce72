"""Running methods on datasets."""
