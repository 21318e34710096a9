"""Stores keep the log."""
