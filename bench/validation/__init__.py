"""Validation: is a dataset consistent, what can it show, and does a method follow the protocol?

It is for those who bring a dataset or write a method. The verbs `check` and `data audit`, `bench.audit`, and a board's
page of the site (for the ceilings) call it.
"""
