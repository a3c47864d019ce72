"""Choices of a language model: shown the tools that a method ranked first, does it call the right ones?"""
