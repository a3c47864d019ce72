"""Specs: names of methods and datasets with parameters, and the declaration of parameters."""
