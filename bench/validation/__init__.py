"""Checks: is a dataset consistent, and does a method follow the protocol?"""
