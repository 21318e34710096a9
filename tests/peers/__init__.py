"""Behaviours that users of other frameworks rely on, through the front door."""
