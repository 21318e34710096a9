"""The API of google-adk's web server."""

from starlette.routing import Mount, Route

from weft.server.endpoints import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = ()


def page_routes() -> list[Route | Mount]:
    """Nothing yet."""
    return []
