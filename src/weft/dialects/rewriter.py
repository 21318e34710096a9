"""One schema on its way to one provider: each node is written in the keywords that it reads."""

import re

from weft.dialects.accepted import SAYS_NOTHING, SILENT, Kind, Loss, Rules, Subset
from weft.dialects.algebra import (
    describe,
    escape,
    exclusive,
    inclusive,
    merge,
    name_refs,
    nullable,
    split_types,
    types_of,
    without,
    written_out,
)
from weft.errors import DeclarationError
from weft.jsonschema import ANNOTATIONS, definitions, json_type, map_children, plain, reach, refs
from weft.values import Json, JsonObject


class Rewriter:
    """One schema on its way to one provider."""

    def __init__(self, rules: Rules, schema: JsonObject, where: str) -> None:
        self.rules = rules
        self.where = where
        self.losses: list[Loss] = []
        self.source = name_refs(written_out(plain(schema, where=where)))
        self.named = definitions(self.source)
        self.cyclic = {ref for ref, part in self.named.items() if ref in reach(part, self.named)}
        self.inside: set[str] = set()
        """The cycle being written and not yet left through an optional property."""

    def run(self) -> Subset:
        """The schema as the provider reads it, and what that loses."""
        if self.rules.strict:
            require_object(self.source, self.where)
        body = self.node(without(self.source, "$defs"), "")
        parts: JsonObject = {}
        pending = sorted(refs(body), reverse=True)
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
        said: JsonObject = {}
        node = self.combine(node, pointer, said)
        if "$ref" in node:  # all that was left of an `allOf`
            return describe(self.ref(node, pointer), said)
        if isinstance(node.get("type"), list) and not self.rules.type_lists:
            node = split_types(node)
        node = self.literals(node, pointer, said)
        if "exclusiveMinimum" not in self.rules.keeps and "minimum" in self.rules.keeps:
            node = inclusive(node)
        node = self.obj(node, pointer, said)
        node = self.array(node, pointer)
        for key in list(node):
            reason = self.refusal(key, node[key])
            if reason == "silent" or (reason and key == "default" and node[key] is None):
                del node[key]
            elif reason:
                item = node.pop(key)
                dropped = key in SAYS_NOTHING or key.startswith("x-")
                if not dropped:
                    said[key] = item
                ending = "not sent" if dropped else "said in the description"
                message = f"{self.rules.provider} does not read {reason}; it is {ending}"
                self.lose(
                    f"{pointer}/{escape(key)}", key, message, "dropped" if dropped else "moved"
                )
        node = self.children(node, pointer)
        if self.rules.strict and not node.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
            self.lose(pointer, "type", "strict mode cannot say `any JSON value`", "impossible")
        return describe(node, said)

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
        """A reference stands alone: what is said beside it is written into the target."""
        ref = str(node["$ref"])
        beside = without(node, "$ref")
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

    def combine(self, node: JsonObject, pointer: str, said: JsonObject) -> JsonObject:
        """`allOf` merged, `oneOf` as `anyOf`; a union beside other constraints is told in words."""
        node = dict(node)
        if isinstance(members := node.get("allOf"), list):
            parts = [self.follow(part) for part in members if isinstance(part, dict)]
            merged = merge([*parts, without(node, "allOf")])
            if merged is not None:
                node = self.combine(merged, pointer, said)
            else:
                said["allOf"] = node.pop("allOf")
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
            said["anyOf"] = node.pop("anyOf")
            message = f"a union beside `{sorted(beside)[0]}` is said in the description"
            self.lose(f"{pointer}/anyOf", "anyOf", message, "moved")
        return node

    def follow(self, node: JsonObject) -> JsonObject:
        """The target of a reference that is not recursive."""
        while (ref := str(node.get("$ref", ""))) in self.named and ref not in self.cyclic:
            merged = merge([self.named[ref], without(node, "$ref")])
            if merged is None:
                break
            node = merged
        return node

    def literals(self, node: JsonObject, pointer: str, said: JsonObject) -> JsonObject:
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
            kept = {key: item for key, item in node.items() if key in ANNOTATIONS}
            null: JsonObject = {"type": "null"}
            typed = [kind for kind in types_of(node) if kind != "null"]
            arm: JsonObject = (
                {"type": typed[0], "enum": good} if len(typed) == 1 else {"enum": good}
            )
            return {**kept, "anyOf": [arm, null]} if good else {**kept, **null}
        said[keyword] = node.pop(keyword)
        kinds = {json_type(item) for item in values}
        if "type" not in node and len(kinds) == 1:
            node["type"] = kinds.pop()
        message = f"`{keyword}` of these values is not accepted; it is said in the description"
        kind: Kind = "impossible" if self.rules.strict else "moved"
        self.lose(f"{pointer}/{keyword}", keyword, message, kind)
        return node

    def obj(self, node: JsonObject, pointer: str, said: JsonObject) -> JsonObject:
        """An object: closed and complete in strict mode, its cycles optional where they must be."""
        properties = node.get("properties")
        if "object" not in types_of(node) and not isinstance(properties, dict):
            return node
        node = {"type": "object", **node}
        if isinstance(properties, dict):
            properties = {name: {} if part is True else part for name, part in properties.items()}
            forbidden: list[Json] = [name for name, part in properties.items() if part is False]
            if forbidden:
                said["forbidden"] = forbidden
                properties = without(properties, *map(str, forbidden))
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
        if self.rules.all_required:
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
        if required is not None or self.rules.all_required:
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


def require_object(root: JsonObject, where: str) -> None:
    """Refuse a schema whose root is not an object."""
    if root.get("type") != "object":
        raise DeclarationError(
            "the root of this schema is not an object", where=where, hint="wrap it: wrap_root"
        )
