"""Tools from OpenAPI documents: `Agent("bot", tools=[OpenAPI("api.json", only=["getPet"])])`.

Each operation of a document is a tool; `http_calls.py` makes the calls. What the document leaves
open, such as the address of the service or the keys for it, is given with the declaration.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import msgspec

from weft.declare.functions import Foreign, check_choice
from weft.declare.tool import (
    NAME,
    Condition,
    Effect,
    Tool,
    ToolListing,
    ToolSource,
    check_names,
)
from weft.diagnostics import Origin, report
from weft.dialects.wire import object_at
from weft.errors import DeclarationError, describe_kind
from weft.misuse import explain_mistakes, join_few, suggest_names
from weft.tools.remote import (
    LARGEST_TOOL,
    ArgumentPlace,
    Credential,
    Guards,
    HttpCallError,
    Operation,
    check_guards,
    defer_large,
    drop_repeated,
    guard_tool,
    make_name,
    named_tools,
)
from weft.values import Json, JsonObject, compact

if TYPE_CHECKING:
    from weft.compiler import ReadonlyContext
    from weft.tools.http_calls import HttpCaller

METHODS = ("get", "put", "post", "delete", "options", "head", "patch")

_WORDS = {
    "spec": "document", "url": "document", "base_url": "server", "filter": "only",
    "tool_filter": "only", "auth_credential": "auth", "operations": "only", "timeout": "seconds",
}  # fmt: skip


@explain_mistakes('OpenAPI("api.json", only=["getPet"], auth={"key": "..."})', words=_WORDS)
@dataclass(frozen=True)
class OpenAPI:
    """The operations of an OpenAPI document (3.0 or 3.1) as tools.

    `document` is a path to JSON or YAML, or the document itself. `only` names operations by their
    ids. `server` is the address of the service, where the document does not have it. `auth` has a
    key, a token, or a pair of user and password for each security scheme by its name. Calls go to
    the service's host and to those in `hosts`, never to a private address unless `private=True`.
    `seconds` and `largest` (bytes) limit an answer. `defer` and `guards` are as for `MCP`.
    """

    document: str | Path | Mapping[str, object]
    _: KW_ONLY
    name: str = ""
    only: Sequence[str] | None = None
    prefix: str = ""
    server: str | None = None
    auth: Mapping[str, Credential] = field(default_factory=dict[str, Credential])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    hosts: Sequence[str] = ()
    private: bool = False
    seconds: float = 30.0
    largest: int = 500_000
    defer: bool | None = None
    effect: Effect | None = None
    confirm: bool | Condition = False
    trusted: bool = False
    guards: Guards = field(default_factory=dict[str, Mapping[str, object]])

    def __post_init__(self) -> None:
        where = f"OpenAPI {self.label}"
        if self.only is not None:
            check_names("only", self.only, where=where)
        check_names("hosts", self.hosts or (), where=where)
        if self.effect is not None:
            check_choice(where, "effect", self.effect, Effect)
        check_guards(self.guards, self.effect, where)
        if self.prefix and not NAME.fullmatch(self.prefix):
            raise DeclarationError(
                f"prefix={self.prefix!r} cannot begin a tool's name",
                where=where,
                hint='write letters, digits and _: prefix="pets_"',
            )
        known = self._schemes
        for scheme in self.auth:
            if scheme not in known:
                raise _unknown_name(f"security scheme {scheme!r}", scheme, known, f"{where}.auth")
        names = [one.id for one in self._operations]
        for option, wanted in named_tools(self.only, self.guards):
            if wanted not in names and wanted not in dict(self._problems):
                raise _unknown_name(f"operation {wanted!r}", wanted, names, f"{where}.{option}")
        _ = self._address

    @property
    def label(self) -> str:
        """The name of the service: as it was given, or as the document's title says."""
        info = self._document.get("info")
        title = info.get("title") if isinstance(info, dict) else None
        text = self.name or (title if isinstance(title, str) else "") or "api"
        return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:40] or "api"

    @cached_property
    def _document(self) -> JsonObject:
        """The document, read once."""
        return _read_document(self.document)

    @cached_property
    def _schemes(self) -> JsonObject:
        schemes = object_at(self._document, "components", "securitySchemes")
        return {name: _resolve(self._document, one) for name, one in schemes.items()}

    @cached_property
    def _address(self) -> str:
        """Where the service is."""
        text = self.server
        if text is None:
            servers = self._document.get("servers")
            first = servers[0] if isinstance(servers, list) and servers else None
            text = _server_text(first) if isinstance(first, dict) else ""
        parts = urlsplit(text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DeclarationError(
                f"the document says that the service is at {text!r}, which is not an address",
                where=f"OpenAPI {self.label}.server",
                hint='write server="https://api.example.com/v1"',
            )
        return text

    @cached_property
    def _operations_read(self) -> tuple[list[Operation], list[tuple[str, str]]]:
        return _read_operations(self._document)

    @property
    def _operations(self) -> list[Operation]:
        return self._operations_read[0]

    @property
    def _problems(self) -> list[tuple[str, str]]:
        return self._operations_read[1]

    # --- as a toolset

    def as_source(self) -> ToolSource:
        """The document as a toolset, whose declarations are in the log of each run."""
        return ToolSource(self.label, self._ask, restore=self._restore)

    def get_tools(self) -> list[Tool]:
        """The tools of the document."""
        return [*self._ask(None).tools]

    def _ask(self, context: "ReadonlyContext[object] | None") -> ToolListing:
        tools: list[Tool] = []
        problems = [*self._problems]
        for one in self._operations:
            if self.only is not None and one.id not in self.only:
                continue
            try:
                tools.append(self._bind(self._declare(one), one))
            except DeclarationError as error:  # the others are as good as they were
                problems.append((one.id, error.message))
        agent = context.agent_name if context is not None else ""
        warnings = [
            report(
                "WEFT307",
                Origin("field", f"tools.{self.label}", agent),
                f"the operation {name!r} is left out: {problem}",
                "mend the document, or name those that you want: only=[...]",
            )
            for name, problem in problems
            if self.only is None or name in self.only
        ]
        return ToolListing(tuple(defer_large(drop_repeated(tools), self.defer)), tuple(warnings))

    def _declare(self, operation: Operation) -> Tool:
        return Tool(
            name=make_name(self.prefix + operation.id),
            description=operation.about,
            parameters=operation.parameters,
            documented=bool(operation.about),
            source=(self.label, operation.id),
            untrusted=not self.trusted,
            effect=self.effect or operation.effect,
        )

    def _restore(self, tool: Tool, context: "ReadonlyContext[object]") -> Tool:
        by_id = {one.id: one for one in self._operations}
        operation = by_id.get(tool.source[1] if len(tool.source) > 1 else "")
        return self._bind(tool, operation)

    def _bind(self, tool: Tool, operation: Operation | None) -> Tool:
        """The tool with what makes its calls."""

        async def call(**args: object) -> object:
            if operation is None:
                raise HttpCallError(f"the document has no operation {tool.source[1]!r} any more")
            return await self._caller.call(operation, cast("JsonObject", args))

        function = Foreign(tool.name, f"an operation of {self.label}", call=call)
        tool = guard_tool(tool, self.guards)
        return msgspec.structs.replace(tool, function=function, confirm=self.confirm)

    @cached_property
    def _caller(self) -> "HttpCaller":
        from weft.tools.http_calls import HttpCaller  # it loads the HTTP client

        return HttpCaller(
            self._address,
            schemes=self._schemes,
            auth=self.auth,
            headers=self.headers,
            hosts=frozenset((urlsplit(self._address).hostname or "", *self.hosts)),
            private=self.private,
            seconds=self.seconds,
            largest=self.largest,
        )


def _unknown_name(what: str, name: str, known: Iterable[str], where: str) -> DeclarationError:
    """The error for a name that the document does not have, with those that it has."""
    near = suggest_names(name, known, most=1, quote="'")
    return DeclarationError(
        f"the document has no {what}",
        where=where,
        hint=near or f"it has: {join_few(known) or 'none'}",
    )


# --- documents


def _read_document(source: object) -> JsonObject:
    where = "OpenAPI"
    if isinstance(source, Mapping):
        document: object = dict(cast("Mapping[str, object]", source))
    else:
        path = Path(str(source))
        where = str(path)
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DeclarationError(
                f"it cannot be read: {error}", where=where, hint="pass a path, or the document"
            ) from None
        document = _parse(text, path)
    if not isinstance(document, dict):
        raise DeclarationError(f"it is {describe_kind(document)}, not a document", where=where)
    version = str(cast("dict[str, object]", document).get("openapi", ""))
    if not version.startswith(("3.0", "3.1")):
        old = "swagger" in document
        raise DeclarationError(
            f"it is of OpenAPI {version or 'an unknown version'}"
            if not old
            else "it is Swagger 2.0",
            where=where,
            hint="convert it to 3.0 or 3.1 first",
        )
    try:
        # plain JSON from here on: dates of YAML become text
        return cast("JsonObject", json.loads(json.dumps(document, default=str)))
    except (ValueError, RecursionError) as error:
        raise DeclarationError(f"it is not JSON: {error}", where=where) from None


def _parse(text: str, path: Path) -> object:
    where = str(path)
    if path.suffix not in (".yaml", ".yml"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DeclarationError(f"it is not JSON: {error}", where=where) from None
    try:
        import yaml
    except ModuleNotFoundError:
        raise DeclarationError(
            "it is YAML, and nothing here reads that",
            where=where,
            hint="pip install 'weft[openapi]'",
        ) from None
    try:
        return cast("object", yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise DeclarationError(f"it is not YAML: {error}", where=where) from None


class _UnresolvedReference(Exception):
    """A reference that leads nowhere."""


def _resolve(document: JsonObject, value: Json) -> JsonObject:
    """An object, or the one that it refers to."""
    for _ in range(20):
        if not isinstance(value, dict):
            raise _UnresolvedReference("it is not an object")
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return value
        value = _find(document, reference)
    raise _UnresolvedReference("its references go round in a circle")


def _find(document: JsonObject, reference: str) -> Json:
    if not reference.startswith("#/"):
        raise _UnresolvedReference(f"it refers to another file: {reference[:100]}")
    value: Json = document
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(value, dict) or name not in value:
            raise _UnresolvedReference(f"there is nothing at {reference[:100]}")
        value = value[name]
    return value


def _server_text(server: JsonObject) -> str:
    text = server.get("url")
    variables = server.get("variables")
    values = variables if isinstance(variables, dict) else {}

    def fill(match: re.Match[str]) -> str:
        one = values.get(match[1])
        return str(one.get("default", "")) if isinstance(one, dict) else match[0]

    return re.sub(r"\{(\w+)\}", fill, text) if isinstance(text, str) else ""


# --- operations


def _read_operations(document: JsonObject) -> tuple[list[Operation], list[tuple[str, str]]]:
    """The operations of a document, and what is wrong with those that cannot be tools."""
    operations: list[Operation] = []
    problems: list[tuple[str, str]] = []
    taken: set[str] = set()
    for path, item in object_at(document, "paths").items():
        try:
            shared = _resolve(document, item)
        except _UnresolvedReference as error:
            problems.append((path, str(error)))
            continue
        for method in METHODS:
            if not isinstance(shared.get(method), dict):
                continue
            declared_id = object_at(shared, method).get("operationId")
            id = declared_id if isinstance(declared_id, str) and declared_id else f"{method} {path}"
            if id in taken:
                problems.append((id, "another operation has its id"))
                continue
            taken.add(id)
            try:
                operations.append(_OperationReader(document).operation(id, method, path, shared))
            except _UnresolvedReference as error:
                problems.append((id, str(error)))
            except RecursionError:
                problems.append((id, "its schemas are nested too deeply"))
    return operations, problems


_BODIES = (
    "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain",
    "application/octet-stream",
)  # fmt: skip


_LEFT_OUT = (
    "xml", "externalDocs", "discriminator", "example", "deprecated", "$recursiveAnchor",
)  # fmt: skip


class _OperationReader:
    """One operation on its way to a tool, and the schemas that it needs."""

    def __init__(self, document: JsonObject) -> None:
        self._document = document
        self._is_old = str(document.get("openapi")).startswith("3.0")
        self._definitions: dict[str, Json] = {}
        self._names: dict[str, str] = {}
        """By reference: what it is called among the definitions."""
        self._inside: list[str] = []
        """The definitions that are being read, the innermost last."""

    def operation(self, id: str, method: str, path: str, item: JsonObject) -> Operation:
        own = object_at(item, method)
        placed: list[ArgumentPlace] = []
        properties: JsonObject = {}
        required: list[Json] = []
        for one in self._parameters(item, own):
            name, place = str(one.get("name")), str(one.get("in"))
            argument = name if name not in properties else f"{place}_{name}"
            content = one.get("content")
            schema = one.get("schema")
            is_json = isinstance(content, dict)
            if isinstance(content, dict):
                schema = object_at(content, next(iter(content), "")).get("schema")
            rules = self._schema(schema if isinstance(schema, dict) else {})
            if isinstance(one.get("description"), str):
                rules = {**rules, "description": one["description"]}
            properties[argument] = rules
            if one.get("required") is True or place == "path":
                required.append(argument)
            style, explode = one.get("style"), one.get("explode")
            placed.append(
                ArgumentPlace(
                    argument=argument,
                    name=name,
                    place=place,
                    style=style if isinstance(style, str) else "",
                    explode=explode if isinstance(explode, bool) else None,
                    is_json=is_json,
                )
            )
        body_type = self._body(own, properties, required)
        parameters: JsonObject = {"type": "object", "properties": properties}
        if required:
            parameters["required"] = required
        if self._definitions:
            parameters["$defs"] = dict(sorted(self._definitions.items()))
        if len(compact(parameters)) > LARGEST_TOOL:
            raise _UnresolvedReference(f"its schema has more than {LARGEST_TOOL:,} characters")
        about = [own.get("summary"), own.get("description")]
        texts = [text.strip() for text in about if isinstance(text, str) and text.strip()]
        return Operation(
            id=id,
            method=method.upper(),
            path=path,
            about="\n".join(dict.fromkeys(texts))[:4000],
            parameters=parameters,
            placed=tuple(placed),
            body=body_type,
            security=self._security(own),
        )

    def _parameters(self, item: JsonObject, own: JsonObject) -> Iterator[JsonObject]:
        """The parameters of an operation, those of its path first, each once."""
        by_key: dict[tuple[str, str], JsonObject] = {}
        for listed in (item.get("parameters"), own.get("parameters")):
            for one in listed if isinstance(listed, list) else ():
                parameter = _resolve(self._document, one)
                by_key[str(parameter.get("name")), str(parameter.get("in"))] = parameter
        yield from by_key.values()

    def _body(self, own: JsonObject, properties: JsonObject, required: list[Json]) -> str:
        """Take the body in as the argument `body`; gives its type, or nothing."""
        if not isinstance(own.get("requestBody"), dict):
            return ""
        body = _resolve(self._document, own["requestBody"])
        content = object_at(body, "content")
        chosen = next((one for one in _BODIES if one in content), "")
        chosen = chosen or next((one for one in content if one.endswith("+json")), "")
        if not chosen:
            raise _UnresolvedReference(f"its body is of {', '.join(content) or 'no type'}")
        schema = object_at(content, chosen).get("schema")
        rules = self._schema(schema if isinstance(schema, dict) else {})
        properties["body"] = rules or {"description": f"of type {chosen}"}
        if body.get("required") is True:
            required.append("body")
        return chosen

    def _security(self, own: JsonObject) -> tuple[tuple[str, ...], ...]:
        """The sets of schemes of which one is needed; an empty set: none is."""
        listed = own.get("security", self._document.get("security"))
        if not isinstance(listed, list):
            return ()
        return tuple(tuple(one) for one in listed if isinstance(one, dict))

    # --- schemas

    def _schema(self, schema: JsonObject) -> JsonObject:
        """A schema as a tool has it: what it refers to stands under `$defs`."""
        reference = schema.get("$ref")
        if isinstance(reference, str):
            name = self._names.get(reference, "")
            if not name:
                name = self._names[reference] = self._free_name(reference)
                self._definitions[name] = {}  # one that contains itself is not read for ever
                target = _find(self._document, reference)
                self._inside.append(name)
                inner = self._schema(target if isinstance(target, dict) else {})
                self._inside.pop()
                self._definitions[name] = inner
            return {"$ref": f"#/$defs/{name}"}
        rules: JsonObject = {}
        for key, value in schema.items():
            if key in _LEFT_OUT:
                continue
            if key == "$recursiveRef":  # as JSON Schema said it once
                rules |= {"$ref": f"#/$defs/{self._inside[-1]}"} if self._inside else {}
                continue
            if key in ("properties", "patternProperties", "$defs", "definitions"):
                rules[key] = self._children(value)
            elif key in ("items", "additionalProperties", "not", "contains", "propertyNames"):
                rules[key] = self._schema(value) if isinstance(value, dict) else value
            elif key in ("allOf", "anyOf", "oneOf", "prefixItems") and isinstance(value, list):
                rules[key] = [self._schema(one) if isinstance(one, dict) else one for one in value]
            else:
                rules[key] = value
        return self._modernise(_without_read_only(rules, schema))

    def _free_name(self, reference: str) -> str:
        """A name for what is referred to that no other reference has."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2]) or "schema"
        tries = (name if number == 1 else f"{name}_{number}" for number in count(1))
        return next(one for one in tries if one not in self._definitions)

    def _children(self, value: Json) -> Json:
        fields = value.items() if isinstance(value, dict) else ()
        return {name: self._schema(one) for name, one in fields if isinstance(one, dict)}

    def _modernise(self, rules: JsonObject) -> JsonObject:
        """The words of 3.0 that JSON Schema has otherwise."""
        if not self._is_old:
            return rules
        for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            flag = rules.get(exclusive)
            if isinstance(flag, bool):
                del rules[exclusive]
                if flag and bound in rules:
                    rules[exclusive] = rules.pop(bound)
        if rules.pop("nullable", False) is True:
            kind, choices = rules.get("type"), rules.get("enum")
            if isinstance(kind, str):
                rules["type"] = [kind, "null"]
            if isinstance(choices, list) and None not in choices:
                rules["enum"] = [*choices, None]
        return rules


def _without_read_only(rules: JsonObject, schema: JsonObject) -> JsonObject:
    """The rules without fields that only answers have."""
    properties, declared_fields = rules.get("properties"), schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(declared_fields, dict):
        return rules
    gone = {
        name
        for name, one in declared_fields.items()
        if isinstance(one, dict) and one.get("readOnly") is True
    }
    if not gone:
        return rules
    rules["properties"] = {name: one for name, one in properties.items() if name not in gone}
    required = rules.get("required")
    if isinstance(required, list):
        rules["required"] = [name for name in required if name not in gone]
    return rules
