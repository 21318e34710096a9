"""Models carry a wire to a provider and lift the answer back to events."""
