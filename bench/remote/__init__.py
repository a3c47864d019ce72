"""Retrievers outside of bench: queries go out as JSON, answers come back as JSON, and nothing in them is believed."""
