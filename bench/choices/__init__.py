"""Choices of a language model: given the tools that a method ranked first, does it call the right ones?"""
