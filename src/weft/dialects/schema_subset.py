"""The part of JSON Schema each provider accepts, and what is lost on the way.

What a provider takes is one table, its `SchemaRules`, in the provider's own file. Schemas are
written from it here, and requests are judged by it in `legality.py`.

A rewrite never narrows what a value may be without saying so, and never drops a keyword in
silence: what a provider does not read goes into the description, where the model still
sees it, and every such step is a `Loss`. Values are validated against the original
schema when they come back, so a wider schema on the wire is safe.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast

import msgspec

from weft.dialects.wire import drop_fields, escape
from weft.errors import DeclarationError
from weft.jsonschema import (
    ANNOTATIONS,
    SUBSCHEMAS,
    definitions,
    json_type,
    map_children,
    plain,
    reach,
    refs,
    rename_refs,
    resolve,
)
from weft.values import Json, JsonObject, compact

Kind: TypeAlias = Literal["moved", "changed", "widened", "dropped", "impossible"]


class Loss(msgspec.Struct, frozen=True):
    """One place where the provider's schema says less than the author's.

    `moved`: said in the description instead. `changed`: said in another way that a value
    must be read back through. `widened`: the wire accepts more. `dropped`: not said at all.
    `impossible`: strict mode cannot say it; lower without strict.
    """

    pointer: str
    keyword: str
    message: str
    kind: Kind = "moved"


Subset: TypeAlias = tuple[JsonObject, tuple[Loss, ...]]


def wrap_root(schema: JsonObject) -> tuple[JsonObject, bool]:
    """The schema under `result`, unless it is an object already.

    Tools and outputs must be objects; the caller takes the `result` back out.
    """
    schema = plain(schema, where="")
    if written_out(schema).get("type") == "object":
        return schema, False
    inside = "#/properties/result"
    names = {ref: inside + ref[1:] for ref in refs(schema) if not ref.startswith("#/$defs/")}
    moved = rename_refs(schema, {ref: new for ref, new in names.items() if ref.startswith("#")})
    named = moved.pop("$defs", None)
    wrapped: JsonObject = {
        "type": "object",
        "properties": {"result": moved},
        "required": ["result"],
        "additionalProperties": False,
    }
    return ({**wrapped, "$defs": named} if named else wrapped), True


def _open_root(schema: JsonObject, refused: Sequence[str]) -> Subset:
    """Everything below the root as it is; what the root may not say goes to its description."""
    root = written_out(plain(schema, where=""))
    require_object(root)
    moved: JsonObject = {key: root[key] for key in refused if key in root}
    losses = tuple(
        Loss(f"/{key}", key, f"`{key}` is not accepted at the root; it is said in the description")
        for key in moved
    )
    return describe(drop_fields(root, *moved), moved), losses


class FittedSchema(msgspec.Struct, frozen=True):
    """A schema as a provider takes it, what it gave up, and whether strict can say it at all."""

    schema: JsonObject
    losses: tuple[Loss, ...]
    possible: bool


def fit_schema(rules: "SchemaRules", schema: JsonObject, *, strict: bool = False) -> FittedSchema:
    """The schema for that provider; equal schemas share one result, which is not to be changed."""
    return _fit_encoded(rules, msgspec.json.encode(schema), strict)


@functools.lru_cache(maxsize=4096)
def _fit_encoded(rules: "SchemaRules", data: bytes, strict: bool) -> FittedSchema:
    fit, losses = write_schema(rules, msgspec.json.decode(data), strict=strict)
    return FittedSchema(fit, losses, all(loss.kind != "impossible" for loss in losses))


def write_schema(rules: "SchemaRules", schema: JsonObject, *, strict: bool) -> Subset:
    """The schema in the provider's subset, and what is lost; one without an end is refused."""
    if rules.open_root is None or strict:
        return Rewriter(rules, schema).run()
    return _open_root(schema, rules.open_root)


COMMON_KEYWORDS = frozenset(("$ref", "type", "title", "description", "enum", "anyOf", "format")) | {
    *("properties", "required", "additionalProperties", "items")
}
"""Keywords that every provider with a subset of its own reads."""

STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
"""Formats of texts that the strict modes know."""


class SchemaRules(msgspec.Struct, frozen=True, eq=False):
    """What one provider takes of JSON Schema: how schemas are written for it, what it refuses.

    The default is a provider of which nothing is known: any schema of an object goes.
    """

    provider: str = ""
    open_root: tuple[str, ...] | None = ("anyOf", "oneOf", "allOf", "enum", "not")
    """What the root may not say where nothing is strict; the rest goes as it is.

    None where there is no such form, and every schema is written in the subset below.
    """
    keeps: frozenset[str] = COMMON_KEYWORDS
    """Keywords that the subset has; others are said in the description."""
    formats: frozenset[str] | None = None
    strict: bool = True
    """Whether the subset is that of a strict mode, which wants objects closed."""
    complete: bool = False
    """Whether strict mode wants every property required, references alone, no union as root."""
    type_lists: bool = True
    enum_types: frozenset[str] = frozenset(
        ("string", "integer", "number", "boolean", "null", "array", "object")
    )
    most_min_items: int | None = None
    cycles: Literal["any", "optional", "none"] = "any"
    refused: tuple[str, ...] = ()
    """Keywords for which strict mode is known to refuse a schema."""
    refused_of_type: Mapping[str, tuple[str, ...]] = {}
    """The same, by the type of the schema that they stand in."""
    typed_arrays: bool = False
    """Whether arrays must say what is in them even where nothing is strict."""
    most_strict_tools: int = 0
    most_optional: int = 0
    most_unions: int = 0
    """How many strict tools a request may have, and in them optional parameters and unions.

    0 where no limit is known.
    """


class Rewriter:
    """One schema on its way to one provider."""

    def __init__(self, rules: SchemaRules, schema: JsonObject) -> None:
        self.rules = rules
        self.losses: list[Loss] = []
        self.source = plain(schema, where="")
        self.named: dict[str, JsonObject] = {}
        if refs(self.source):  # most schemas refer to nothing
            self.source = name_refs(written_out(self.source))
            self.named = definitions(self.source)
        self.cyclic = {ref for ref, part in self.named.items() if ref in reach(part, self.named)}
        self.inside: set[str] = set()
        """The cycle being written and not yet left through an optional property."""

    def run(self) -> Subset:
        """The schema as the provider reads it, and what that loses."""
        if self.rules.strict:
            require_object(self.source)
        body = self.node(drop_fields(self.source, "$defs"), "")
        parts: JsonObject = {}
        pending = sorted(refs(body), reverse=True) if self.named else []
        while pending:
            ref = pending.pop()
            name = ref.removeprefix("#/$defs/")
            if name not in parts:
                self.inside = self.cycle(ref)
                parts[name] = part = self.node(self.named[ref], f"/$defs/{escape(name)}")
                self.inside = set()
                pending += sorted(refs(part), reverse=True)
        if self.rules.strict and "anyOf" in body:
            self.lose("", "anyOf", "a union cannot stand at the root", "impossible")
        return ({**body, "$defs": parts} if parts else body), tuple(self.losses)

    def cycle(self, ref: str) -> set[str]:
        """The named parts that lead to this one and back."""
        onward = reach(self.named[ref], self.named)
        return {other for other in onward if ref in reach(self.named[other], self.named)}

    def lose(self, pointer: str, keyword: str, message: str, kind: Kind) -> None:
        """Take note of a loss."""
        self.losses.append(Loss(pointer, keyword, message, kind))

    def node(self, node: JsonObject, pointer: str) -> JsonObject:
        """One sub-schema, written for the provider."""
        if "$ref" in node:
            return self.ref(node, pointer)
        moved: JsonObject = {}
        node = self.combine(node, pointer, moved)
        if "$ref" in node:  # all that was left of an `allOf`
            return describe(self.ref(node, pointer), moved)
        if isinstance(node.get("type"), list) and not self.rules.type_lists:
            node = split_types(node)
        node = self.literals(node, pointer, moved)
        if "exclusiveMinimum" not in self.rules.keeps and "minimum" in self.rules.keeps:
            node = inclusive(node)
        node = self.obj(node, pointer, moved)
        node = self.array(node, pointer)
        for key in list(node):
            reason = self.refusal(key, node[key])
            if reason == "silent" or (reason and key == "default" and node[key] is None):
                del node[key]
            elif reason:
                item = node.pop(key)
                dropped = key in SAYS_NOTHING or key.startswith("x-")
                if not dropped:
                    moved[key] = item
                ending = "not sent" if dropped else "said in the description"
                message = f"{self.rules.provider} does not read {reason}; it is {ending}"
                self.lose(
                    f"{pointer}/{escape(key)}", key, message, "dropped" if dropped else "moved"
                )
        node = self.children(node, pointer)
        if self.rules.strict and not node.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
            self.lose(pointer, "type", "strict mode cannot say `any JSON value`", "impossible")
        return describe(node, moved)

    def refusal(self, key: str, value: Json) -> str:
        """Why the provider does not take this keyword, or nothing."""
        if key in SILENT:
            return "silent"
        if key not in self.rules.keeps:
            return f"`{key}`"
        formats = self.rules.formats
        if key == "format" and formats is not None and value not in formats:
            return f"the format {value}"
        if key == "pattern" and re.search(r"\(\?[=!<]", str(value)):
            return "a pattern that looks around"
        most = self.rules.most_min_items
        if key == "minItems" and most is not None and isinstance(value, int) and value > most:
            return f"`minItems` above {most}"
        return ""

    def ref(self, node: JsonObject, pointer: str) -> JsonObject:
        """A reference stands alone: the keywords next to it are written into the target."""
        ref = str(node["$ref"])
        beside = drop_fields(node, "$ref")
        if ref not in self.named:
            self.lose(f"{pointer}/$ref", "$ref", f"`{ref}` is not in this document", "impossible")
            return self.node(beside, pointer) if beside else {}
        if ref in self.cyclic and self.rules.cycles == "none":
            self.lose(f"{pointer}/$ref", "$ref", f"`{ref}` is recursive", "impossible")
        if ref in self.inside and self.rules.cycles == "optional":
            message = f"`{ref}` recurs where it is required; any value is accepted here"
            self.lose(f"{pointer}/$ref", "$ref", message, "widened")
            return self.node(beside, pointer) if beside else {}
        if not beside:
            return {"$ref": ref}
        if ref in self.cyclic:
            return self.node({"anyOf": [{"$ref": ref}], **beside}, pointer)
        merged = merge([self.named[ref], beside])
        return self.node(merged or {"anyOf": [{"$ref": ref}], **beside}, pointer)

    def combine(self, node: JsonObject, pointer: str, moved: JsonObject) -> JsonObject:
        """`allOf` merged, `oneOf` as `anyOf`; a union next to other keywords is said in words."""
        node = dict(node)
        if isinstance(members := node.get("allOf"), list):
            parts = [self.follow(part) for part in members if isinstance(part, dict)]
            merged = merge([*parts, drop_fields(node, "allOf")])
            if merged is not None:
                node = self.combine(merged, pointer, moved)
            else:
                moved["allOf"] = node.pop("allOf")
                self.lose(
                    f"{pointer}/allOf",
                    "allOf",
                    "the parts of `allOf` cannot be merged; they are said in the description",
                    "impossible" if self.rules.strict else "moved",
                )
        if isinstance(arms := node.get("oneOf"), list) and "anyOf" not in node:
            node["anyOf"] = node.pop("oneOf")
            if not exclusive([self.follow(arm) for arm in arms if isinstance(arm, dict)]):
                message = "`oneOf` is sent as `anyOf`: more than one may fit"
                self.lose(f"{pointer}/oneOf", "oneOf", message, "widened")
        beside = node.keys() - ANNOTATIONS - SILENT - SAYS_NOTHING - {"anyOf", "$defs"}
        if self.rules.strict and "anyOf" in node and beside:
            moved["anyOf"] = node.pop("anyOf")
            message = f"a union beside `{sorted(beside)[0]}` is said in the description"
            self.lose(f"{pointer}/anyOf", "anyOf", message, "moved")
        return node

    def follow(self, node: JsonObject) -> JsonObject:
        """The target of a reference that is not recursive."""
        while (ref := str(node.get("$ref", ""))) in self.named and ref not in self.cyclic:
            merged = merge([self.named[ref], drop_fields(node, "$ref")])
            if merged is None:
                break
            node = merged
        return node

    def literals(self, node: JsonObject, pointer: str, moved: JsonObject) -> JsonObject:
        """`enum` and `const`, in the types the provider takes them in."""
        node = dict(node)
        if "const" in node and "const" not in self.rules.keeps:
            node["enum"] = [node.pop("const")]
        values = node.get("enum", [node["const"]] if "const" in node else None)
        if not isinstance(values, list):
            return node
        keyword = "enum" if "enum" in node else "const"
        good: list[Json] = [item for item in values if json_type(item) in self.rules.enum_types]
        if len(good) == len(values):
            if not self.rules.type_lists:
                node.pop("type", None)
            return node
        if all(item is None or item in good for item in values):
            annotations = {key: item for key, item in node.items() if key in ANNOTATIONS}
            null: JsonObject = {"type": "null"}
            typed = [kind for kind in types_of(node) if kind != "null"]
            arm: JsonObject = (
                {"type": typed[0], "enum": good} if len(typed) == 1 else {"enum": good}
            )
            return {**annotations, "anyOf": [arm, null]} if good else {**annotations, **null}
        moved[keyword] = node.pop(keyword)
        kinds = {json_type(item) for item in values}
        # without its values, at least their type is still said
        if "type" not in node and len(kinds) == 1:
            node["type"] = kinds.pop()
        message = f"`{keyword}` of these values is not accepted; it is said in the description"
        kind: Kind = "impossible" if self.rules.strict else "moved"
        self.lose(f"{pointer}/{keyword}", keyword, message, kind)
        return node

    def obj(self, node: JsonObject, pointer: str, moved: JsonObject) -> JsonObject:
        """An object: closed and complete in strict mode, its cycles optional where they must be."""
        properties = node.get("properties")
        if "object" not in types_of(node) and not isinstance(properties, dict):
            return node
        node = {"type": "object", **node}
        if isinstance(properties, dict):
            properties = {name: {} if part is True else part for name, part in properties.items()}
            forbidden: list[Json] = [name for name, part in properties.items() if part is False]
            if forbidden:
                moved["forbidden"] = forbidden
                properties = drop_fields(properties, *map(str, forbidden))
                message = "a property that is forbidden is said in the description"
                self.lose(f"{pointer}/properties", "properties", message, "moved")
            node["properties"] = properties
        if not self.rules.strict:
            return node
        if properties is None or node.get("additionalProperties", False) is not False:
            message = "strict mode cannot say an object whose keys are not known in advance"
            self.lose(pointer, "additionalProperties", message, "impossible")
        if "patternProperties" in node:
            message = "strict mode cannot say keys by pattern"
            self.lose(f"{pointer}/patternProperties", "patternProperties", message, "impossible")
        properties = properties if isinstance(properties, dict) else {}
        required = node.get("required")
        names = [str(name) for name in required] if isinstance(required, list) else []
        for name in names:
            if name not in properties:
                message = f"`{name}` is required and not described"
                self.lose(f"{pointer}/required", "required", message, "impossible")
        if self.rules.complete:
            for name, part in properties.items():
                if name not in names:
                    properties[name] = nullable(part)
                    place = f"{pointer}/properties/{escape(name)}"
                    message = (
                        f"`{name}` is optional; strict mode asks for it, null meaning left out"
                    )
                    self.lose(place, "required", message, "changed")
            names = list(properties)
        node.update(properties=properties, additionalProperties=False)
        if required is not None or self.rules.complete:
            node["required"] = [name for name in names if name in properties]
        return node

    def array(self, node: JsonObject, pointer: str) -> JsonObject:
        """An array: one type of items in strict mode, a closed tuple by its length elsewhere."""
        if "array" not in types_of(node) and "items" not in node and "prefixItems" not in node:
            return node
        node = dict(node)
        prefix = node.get("prefixItems")
        if node.get("items") is True:
            del node["items"]
        if node.get("items") is False and isinstance(prefix, list):
            del node["items"]
            if "maxItems" in self.rules.keeps:
                node.setdefault("maxItems", len(prefix))
        if self.rules.strict and not isinstance(node.get("items"), dict):
            message = "strict mode needs one type for the items of an array"
            self.lose(pointer, "items", message, "impossible")
        return node

    def children(self, node: JsonObject, pointer: str) -> JsonObject:
        """The sub-schemas, each in its place."""
        if node.keys().isdisjoint(SUBSCHEMAS):
            return node
        required = node.get("required")
        names = list(required) if isinstance(required, list) else []

        def visit(child: JsonObject, path: tuple[str, ...]) -> Json:
            inside = self.inside
            place = pointer + "".join(f"/{escape(part)}" for part in path)
            if path[0] == "properties" and self.inside:
                name = path[1]
                if name in names and self.rules.cycles == "optional" and set(refs(child)) & inside:
                    names.remove(name)
                    message = f"`{name}` recurs, so it is sent as optional"
                    self.lose(place, "required", message, "widened")
                if name not in names:
                    self.inside = set()
            try:
                return self.node(child, place)
            finally:
                self.inside = inside

        node = map_children(node, visit)
        if isinstance(required, list):
            node["required"] = names
        return node


def require_object(root: JsonObject) -> None:
    """Refuse a schema whose root is not an object."""
    if root.get("type") != "object":
        raise DeclarationError(
            "the root of this schema is not an object", where="", hint="wrap it: wrap_root"
        )


SILENT = frozenset(("$schema", "$comment", "$id", "$anchor", "$defs", "definitions"))
"""Keywords that say nothing about a value; named parts are gathered at the root."""

SAYS_NOTHING = frozenset(("discriminator", "readOnly", "writeOnly", "xml", "externalDocs"))

_LOWER = frozenset(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"))

_UPPER = frozenset(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"))

_OF_TYPE = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "object": {"properties", "required", "additionalProperties", "patternProperties"}
    | {"propertyNames", "minProperties", "maxProperties", "dependentRequired"},
}


def types_of(node: JsonObject) -> list[str]:
    """The types a schema names."""
    kinds = node.get("type", [])
    return [str(kind) for kind in kinds] if isinstance(kinds, list) else [str(kinds)]


def written_out(schema: JsonObject) -> JsonObject:
    """The root with its own `$ref` replaced by what it names."""
    if "$ref" not in schema:
        return schema
    named = definitions(schema)
    seen: set[str] = set()
    while isinstance(ref := schema.get("$ref"), str) and ref in named and ref not in seen:
        seen.add(ref)
        schema = {**named[ref], **drop_fields(schema, "$ref")}
    return schema


def name_refs(root: JsonObject) -> JsonObject:
    """The same schema with every local `$ref` pointing into `$defs`."""
    named = definitions(root)
    taken = {ref.removeprefix("#/$defs/") for ref in named}
    names: dict[str, str] = {}
    for ref in sorted(refs(root)):
        if ref not in named and resolve(root, ref) is not None:
            from urllib.parse import unquote  # few schemas refer to themselves

            base = name = re.sub(r"\W+", "_", unquote(ref).split("/")[-1].strip("#")) or "Root"
            number = 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            names[ref] = f"#/$defs/{name}"
    if not names:
        return root
    renamed = rename_refs(root, names)
    added: JsonObject = {}
    for ref, new in names.items():
        target = resolve(renamed, ref)
        added[new.removeprefix("#/$defs/")] = drop_fields(target, "$defs") if target else {}
    return {**renamed, "$defs": {**cast("JsonObject", renamed.get("$defs", {})), **added}}


def merge(parts: Sequence[JsonObject]) -> JsonObject | None:
    """One schema for what fits all of them, or nothing if that takes more than one.

    Of two annotations the later wins.
    """
    owned = [set(cast("JsonObject", part.get("properties", {}))) for part in parts]
    for part, own in zip(parts, owned, strict=True):
        closed = part.get("additionalProperties", True) is not True
        # a closed object forbids what another part declares: together they allow nothing
        if closed and any(not other <= own for other in owned):
            return None
    result: JsonObject = {}
    for part in parts:
        for key, item in part.items():
            if key not in result or key in ANNOTATIONS or result[key] == item:
                result[key] = item
                continue
            both = _both(key, result[key], item)
            if both is None:
                return None
            result[key] = both
    return result


def _both(key: str, first: Json, right: Json) -> Json:
    """One keyword that says what two of them say, or None."""
    if isinstance(first, (int, float)) and isinstance(right, (int, float)):
        if key in _LOWER:
            return max(first, right)
        return min(first, right) if key in _UPPER else None
    if key == "required" and isinstance(first, list) and isinstance(right, list):
        return [*first, *(name for name in right if name not in first)]
    if key == "enum" and isinstance(first, list) and isinstance(right, list):
        return [item for item in first if item in right] or None
    if key == "type":
        kinds = [kind for kind in types_of({"type": first}) if kind in types_of({"type": right})]
        # every integer is a number
        if not kinds and {str(first), str(right)} == {"integer", "number"}:
            return "integer"
        return None if not kinds else kinds[0] if len(kinds) == 1 else list[Json](kinds)
    if key == "properties" and isinstance(first, dict) and isinstance(right, dict):
        result = dict(first)
        for name, part in right.items():
            other = first.get(name, part)
            if other != part:
                if not isinstance(other, dict) or not isinstance(part, dict):
                    return None
                part = merge([other, part])
                if part is None:
                    return None
            result[name] = part
        return result
    return None


def exclusive(arms: Sequence[JsonObject]) -> bool:
    """Whether no value can fit two of them: then `oneOf` and `anyOf` say the same."""
    return all(_apart(first, right) for at, first in enumerate(arms) for right in arms[at + 1 :])


def _apart(first: JsonObject, right: JsonObject) -> bool:
    kinds = [
        {"number" if kind == "integer" else kind for kind in types_of(arm)}
        for arm in (first, right)
    ]
    if kinds[0] and kinds[1] and not kinds[0] & kinds[1]:
        return True
    mine, yours = _tags(first), _tags(right)
    return any(not any(item in yours[name] for item in mine[name]) for name in mine.keys() & yours)


def _tags(arm: JsonObject) -> dict[str, list[Json]]:
    """The required properties that may hold only listed values."""
    properties, required = arm.get("properties"), arm.get("required")
    tags: dict[str, list[Json]] = {}
    if isinstance(properties, dict) and isinstance(required, list) and "object" in types_of(arm):
        for name, part in properties.items():
            if name in required and isinstance(part, dict):
                values = part.get("enum", [part["const"]] if "const" in part else None)
                if isinstance(values, list):
                    tags[name] = values
    return tags


def nullable(part: Json) -> Json:
    """The schema, accepting null too."""
    if not isinstance(part, dict) or not part.keys() - ANNOTATIONS:
        return part
    arms, values, kinds = part.get("anyOf"), part.get("enum"), types_of(part)
    if isinstance(values, list) and None in values and "null" in (kinds or ["null"]):
        return part
    if "null" in kinds and not isinstance(values, list) and "const" not in part:
        return part
    if isinstance(arms, list) and not kinds:
        return part if {"type": "null"} in arms else {**part, "anyOf": [*arms, {"type": "null"}]}
    if len(kinds) > 0 and not part.keys() & {"enum", "const", "$ref", "anyOf", "oneOf", "allOf"}:
        return {**part, "type": [*kinds, "null"]}
    moved = {key: item for key, item in part.items() if key in ANNOTATIONS}
    return {**moved, "anyOf": [drop_fields(part, *moved), {"type": "null"}]}


def split_types(node: JsonObject) -> JsonObject:
    """`type: [a, b]` as a union, each arm with the keywords of its type."""
    if "enum" in node or "const" in node:
        return drop_fields(node, "type")
    typed = set[str]().union(*_OF_TYPE.values())
    moved = drop_fields(node, "type", *typed)
    arms: list[Json] = []
    for kind in types_of(node):
        own = _OF_TYPE.get("number" if kind == "integer" else kind, set[str]())
        arms.append({"type": kind, **{key: item for key, item in node.items() if key in own}})
    return {**moved, "anyOf": arms}


def inclusive(node: JsonObject) -> JsonObject:
    """The exclusive bounds of an integer as inclusive ones."""
    if node.get("type") != "integer":
        return node
    node = dict(node)
    low, high = node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    if isinstance(low, int):
        del node["exclusiveMinimum"]
        other = node.get("minimum", low + 1)
        node["minimum"] = max(other, low + 1) if isinstance(other, (int, float)) else low + 1
    if isinstance(high, int):
        del node["exclusiveMaximum"]
        other = node.get("maximum", high - 1)
        node["maximum"] = min(other, high - 1) if isinstance(other, (int, float)) else high - 1
    return node


def describe(node: JsonObject, moved: JsonObject) -> JsonObject:
    """The node with constraints added to its description."""
    if not moved:
        return node
    notes = [str(node["description"])] if node.get("description") else []
    rules = drop_fields(moved, "default")
    notes += [f"Constraints: {compact(rules)}"] if rules else []
    notes += [f"Default: {compact(moved['default'])}"] if "default" in moved else []
    return {**node, "description": "\n\n".join(notes)}
