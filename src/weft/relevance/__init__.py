"""Which texts have to do with a query, told without a model and without the network."""

from weft.relevance.index import Index, words
from weft.relevance.rank import Scorer, rank, rank_apart, search

__all__ = ["Index", "Scorer", "rank", "rank_apart", "search", "words"]
