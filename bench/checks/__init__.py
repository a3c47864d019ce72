"""Checks: does a dataset hold together, does a method keep the protocol?"""
