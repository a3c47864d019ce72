"""Queries from traffic: what users asked for and which tools were called, out of logs in several forms."""
