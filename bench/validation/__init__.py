"""Validation: is a dataset consistent, what can it show, and does a method follow the protocol?

It is for authors of datasets and methods. The verbs `check` and `data audit`, `bench.audit`, and the board pages of the
site (for the ceilings) call it.
"""
