"""Provider tools: what a provider runs itself, declared once for all of them.

The provider calls such a tool and reads its result in one request; no code runs here. Each dialect
spells those that its provider has. The others are left out of the request, and reported.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

import msgspec

from weft.errors import DeclarationError
from weft.jsonschema import shorten
from weft.misuse import DeclaredStruct, explain_mistakes
from weft.values import JsonObject, require_object

_PLACES = ("city", "region", "country", "timezone")


@explain_mistakes(
    "WebSearch(max_uses=3)", words={"max_results": "max_uses", "user_location": "location"}
)
class WebSearch(DeclaredStruct, frozen=True, kw_only=True, tag="web_search"):
    """The provider searches the web, and the model reads and cites what it finds."""

    max_uses: int | None = None
    """How often it may search in one request."""
    allowed_domains: Sequence[str] = ()
    """The only sites whose pages count."""
    blocked_domains: Sequence[str] = ()
    location: dict[str, str] | None = None
    """Where the user is: `city`, `region`, `country` as two letters, `timezone`."""

    def __post_init__(self) -> None:
        _check_uses(self, self.max_uses)
        _check_domains(self)
        location = cast("object", self.location)
        if location is None:
            return
        known = isinstance(location, dict) and all(
            name in _PLACES and isinstance(value, str)
            for name, value in cast("dict[object, object]", location).items()
        )
        if not known:
            raise DeclarationError(
                f"location={location!r} is not a place",
                where="WebSearch.location",
                hint='write location={"city": "Oslo", "country": "NO"}',
            )


@explain_mistakes("WebFetch(max_uses=3)")
class WebFetch(DeclaredStruct, frozen=True, kw_only=True, tag="web_fetch"):
    """The provider fetches the pages whose addresses stand in the conversation."""

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check_uses(self, self.max_uses)
        _check_domains(self)


@explain_mistakes("CodeExecution()")
class CodeExecution(DeclaredStruct, frozen=True, kw_only=True, tag="code_execution"):
    """The provider runs code that the model writes, in a container of its own."""

    files: Sequence[str] = ()
    """Ids of files that were uploaded to the provider, for the code to read."""

    def __post_init__(self) -> None:
        _set_texts(self, "files", self.files)


@explain_mistakes(
    'FileSearch(["store"])', words={"vector_store_ids": "stores", "top_k": "max_results"}
)
class FileSearch(DeclaredStruct, frozen=True, tag="file_search"):
    """The provider searches files that were uploaded to stores of its own."""

    stores: Sequence[str]
    """The names or ids of the stores, as the provider gave them."""
    max_results: int | None = None

    def __post_init__(self) -> None:
        _set_texts(self, "stores", self.stores)
        if not self.stores:
            raise DeclarationError(
                "it names no store", where="FileSearch.stores", hint='write FileSearch(["store"])'
            )
        _check_uses(self, self.max_results, field="max_results")


@explain_mistakes('ProviderTool("image_generation", {"DIALECT": {"type": "image_generation"}})')
class ProviderTool(DeclaredStruct, frozen=True, tag="own"):
    """Any other tool that a provider runs, in the words of each dialect that has it."""

    name: str
    spelled: dict[str, JsonObject]
    """The declaration by dialect, sent as it is."""

    def __post_init__(self) -> None:
        where = f"ProviderTool {self.name}"
        spelled = cast("object", self.spelled)
        if not isinstance(spelled, dict) or not spelled:
            raise DeclarationError(
                f"{shorten(repr(self.spelled), 60)} spells it for no dialect",
                where=where,
                hint='write {"DIALECT": {"type": "...", "name": "..."}}',
            )
        plain = {
            str(name): require_object(wire, where=f"{where}.{name}", refuse=DeclarationError)
            for name, wire in cast("dict[object, object]", spelled).items()
        }
        msgspec.structs.force_setattr(self, "spelled", plain)


HostedTool: TypeAlias = WebSearch | WebFetch | CodeExecution | FileSearch | ProviderTool
"""A tool that the provider runs."""

HOSTED = (WebSearch, WebFetch, CodeExecution, FileSearch, ProviderTool)


def name_of_hosted(tool: HostedTool) -> str:
    """The name it goes by among an agent's tools."""
    if isinstance(tool, ProviderTool):
        return tool.name
    return str(type(tool).__struct_config__.tag)


def _check_uses(tool: object, value: object, *, field: str = "max_uses") -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DeclarationError(
            f"{field}={value!r}", where=type(tool).__name__, hint=f"pass 1 or more: {field}=3"
        )


def _check_domains(tool: WebSearch | WebFetch) -> None:
    kind = type(tool).__name__
    for field in ("allowed_domains", "blocked_domains"):
        _set_texts(tool, field, getattr(tool, field))
        for domain in cast("tuple[str, ...]", getattr(tool, field)):
            if "://" in domain or " " in domain:
                raise DeclarationError(
                    f"{domain!r} is not a domain",
                    where=f"{kind}.{field}",
                    hint='write the name alone, such as "example.com" or "example.com/docs"',
                )
    if tool.allowed_domains and tool.blocked_domains:
        raise DeclarationError(
            "domains are both allowed and blocked",
            where=kind,
            hint="keep one: what is not allowed is blocked already",
        )


def _set_texts(tool: msgspec.Struct, field: str, values: object) -> None:
    """Keep a list of texts as a tuple; refuse anything else."""
    where = f"{type(tool).__name__}.{field}"
    texts = () if isinstance(values, (str, bytes)) else values
    if isinstance(values, (str, bytes)) or not isinstance(texts, Iterable):
        raise DeclarationError(f"{field} is not a list", where=where, hint=f'write {field}=["..."]')
    listed = tuple(cast("Iterable[object]", texts))
    wrong = next((one for one in listed if not isinstance(one, str) or not one.strip()), None)
    if wrong is not None:
        raise DeclarationError(
            f"{wrong!r} is not a text", where=where, hint=f'write {field}=["..."]'
        )
    msgspec.structs.force_setattr(tool, field, listed)
