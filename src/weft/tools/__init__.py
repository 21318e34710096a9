"""Tools that come with Weft: MCP, agent-as-tool, OpenAPI, built-ins."""
