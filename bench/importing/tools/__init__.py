"""Catalogues of tools as their owners have them: MCP, function calling, OpenAPI, objects of agent frameworks."""
