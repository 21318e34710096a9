"""Which texts have to do with a query, told without a model and without the network."""

from weft.relevance.index import Index, words
from weft.relevance.rank import Scorer, rank, search

__all__ = ["Index", "Scorer", "rank", "search", "words"]
