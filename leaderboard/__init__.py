"""A static site of stored results: what its boards hold (`boards`), its pages (`pages`) and its files (`exports`)."""
