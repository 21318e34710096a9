"""Bridges to other frameworks and protocols."""
