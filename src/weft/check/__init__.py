"""The rules over the whole graph of agents."""
