"""The API of OpenAI."""

from starlette.responses import Response

from weft.server.endpoints import Endpoint
from weft.server.problems import Problem

ENDPOINTS: tuple[Endpoint, ...] = ()


def shape_problem(problem: Problem) -> Response:
    """Nothing yet."""
    return problem.response()
