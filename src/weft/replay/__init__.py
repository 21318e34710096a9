"""Recorded runs compiled again: what a policy would have sent, and what evidence it kept."""
