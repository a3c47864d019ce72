"""Queries from traffic: users' requests and the tools called for them, from logs in several formats."""
