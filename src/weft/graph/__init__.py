"""Pictures: a flow with its data edges, who writes and who reads, and what is wrong in red."""

from weft.graph.build import graph_of
from weft.graph.mermaid import to_mermaid
from weft.graph.model import Graph
from weft.graph.svg import to_svg
from weft.graph.terminal import to_text

__all__ = ["Graph", "graph_of", "to_mermaid", "to_svg", "to_text"]
