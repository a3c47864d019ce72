"""Specs: the text that names a method or dataset with its parameters, and the declaration of these parameters."""
