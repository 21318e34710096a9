"""The runtime runs the loop and appends to the log."""
