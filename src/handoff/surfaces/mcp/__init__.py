"""The relay's tools over MCP, by standard input and by HTTP."""
