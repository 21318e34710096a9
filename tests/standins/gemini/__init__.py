"""A server on this machine that speaks Gemini and answers from a script.

No engine that runs locally speaks this dialect. The stand-in is a real server on a real socket.
It reads requests with the SDK's own types, rejects what the provider rejects, and answers in the
provider's shapes.
"""

from tests.standins.gemini.models import GeminiModel
from tests.standins.gemini.server import GeminiServer
from tests.standins.gemini.service import GeminiRequest

__all__ = ["GeminiModel", "GeminiRequest", "GeminiServer"]
