"""The HTTP API and the inspector page."""
