"""The OpenAPI description, made from the endpoints and the types of their bodies."""

import re
from collections.abc import Sequence

import msgspec

from weft.server.endpoints import Endpoint
from weft.values import JsonObject

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")

_PROBLEM: JsonObject = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "where": {"type": "string"},
    },
}


def describe(endpoints: Sequence[Endpoint], version: str, mounted: str = "") -> JsonObject:
    """The whole description; `mounted` is the path below which another application has it."""
    kinds = list({row.body: None for row in endpoints if row.body is not None})
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    bodies = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, JsonObject] = {}
    for row in endpoints:
        path = _PARAMETER.sub(r"{\1}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(
            row, bodies[row.body] if row.body is not None else None
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Weft", "version": version},
        **({"servers": [{"url": mounted}]} if mounted else {}),
        "security": [{"bearer": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, "Problem": _PROBLEM},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(row: Endpoint, body: object) -> JsonObject:
    names = _PARAMETER.findall(row.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ] + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in row.queries]
    problem: JsonObject = {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    }
    answer: JsonObject = {"description": row.about}
    if row.status != 204:
        answer["content"] = {row.answers: {}}
    operation: JsonObject = {
        "operationId": row.handler.__name__,
        "summary": row.about,
        "tags": [row.tag],
        "parameters": parameters,  # type: ignore[dict-item]
        "responses": {
            str(row.status): answer,
            "default": {"description": "What is wrong.", "content": problem},
        },
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}  # type: ignore[dict-item]
    return operation
