"""Read catalogues of tools: MCP, function calling, OpenAPI, objects of agent frameworks."""
