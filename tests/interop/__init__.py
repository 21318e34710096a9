"""Bridges to other frameworks, tested with them where they are installed."""
