"""A structured answer while it streams: the text so far as a value of its type.

The text is completed to JSON that can be read, and what is complete in it is validated. A field
that has not come is its default, or None; a value that does not fit is left out as if it had not
come. What is only known of the whole, such as a validator of a model, is for the whole answer.

The text is scanned once, and what was validated is kept: one more delta costs reading, not
validating, what came before.
"""

import functools
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast, get_args, get_origin

import msgspec

from weft import schema
from weft.errors import WeftError
from weft.jsonschema import validator
from weft.shapes import Field, fields_of, is_pydantic, is_union
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    import pydantic

NOTHING = msgspec.UNSET
"""What there is before anything of a value can be shown."""

Path = tuple[str | int, ...]


class PartialValue:
    """The value of a type, as far as its text has come: `add` each delta, and get the value."""

    __slots__ = ("_scan", "_tp", "_validated")

    def __init__(self, tp: object) -> None:
        self._tp = tp
        self._scan = PartialJson()
        self._validated: dict[Path, object] = {}

    def add(self, delta: str) -> object:
        """The value with this delta; NOTHING if there is nothing to show yet."""
        self._scan.add(delta)
        if self._tp is None:
            return self._scan.text or NOTHING
        try:
            prefix = self._scan.read()
            if prefix is None:
                return NOTHING
            tp, value, depth = self._tp, prefix.value, prefix.depth
            if isinstance(value, dict) and set(value) == {"result"} and not _has_result(tp):
                # an answer that is not an object is sent in one
                value, depth = value["result"], max(0, depth - 1)
            return self._grow(tp, value, depth, prefix.in_text, ())
        except (RecursionError, TypeError):  # it nests too deep; a set of what cannot be in one
            return NOTHING

    def _grow(self, tp: object, value: Json, depth: int, in_text: bool, path: Path) -> object:
        """A value whose innermost `depth` containers, the last of each, are still open."""
        if depth == 0:
            if in_text:
                return self._text(tp, value)
            # a complete value does not change with later deltas
            if path not in self._validated:
                self._validated[path] = _whole(tp, value)
            return self._validated[path]
        tp = _plain_type(tp)
        if is_union(tp):
            return self._arm(tp, value, depth, in_text, path)
        if isinstance(value, dict):
            return self._object(tp, value, depth, in_text, path)
        return self._list(tp, cast("list[Json]", value), depth, in_text, path)

    def _text(self, tp: object, value: Json) -> object:
        """A text that has not ended: only where any text is right."""
        if not _is_free_text(tp):
            return NOTHING
        return value if isinstance(tp, Mapping) or _is_any(tp) or tp is str else _whole(tp, value)

    def _children(
        self,
        types: Callable[[str | int], object],
        pairs: Sequence[tuple[str | int, Json]],
        depth: int,
        in_text: bool,
        path: Path,
    ) -> dict[str | int, object]:
        """What has come of each child; only the last of them may be open."""
        last = len(pairs) - 1
        grown: dict[str | int, object] = {}
        for index, (key, child) in enumerate(pairs):
            tp = types(key)
            if tp is NOTHING:
                continue
            below = depth - 1 if index == last else 0
            text = in_text and index == last
            grown[key] = self._grow(tp, child, below, text, (*path, key))
        return grown

    def _object(
        self, tp: object, value: JsonObject, depth: int, in_text: bool, path: Path
    ) -> object:
        pairs = list(value.items())
        if isinstance(tp, Mapping):
            rules = cast("JsonObject", tp)
            fields = self._children(lambda key: _property(rules, key), pairs, depth, in_text, path)
            return {key: each for key, each in fields.items() if each is not NOTHING}
        known = _fields_of(tp)
        if known is not None:
            types = {field.key: field.type for field in known}
            fields = self._children(
                lambda key: types.get(cast("str", key), NOTHING), pairs, depth, in_text, path
            )
            return _instance(tp, known, fields)
        if _is_any(tp):
            return value
        origin, args = get_origin(tp), get_args(tp)
        if isinstance(tp, type) and issubclass(tp, dict):
            return value
        if isinstance(origin, type) and issubclass(origin, Mapping) and len(args) == 2:
            fields = self._children(lambda _: args[1], pairs, depth, in_text, path)
            return {key: each for key, each in fields.items() if each is not NOTHING}
        return NOTHING

    def _list(self, tp: object, value: list[Json], depth: int, in_text: bool, path: Path) -> object:
        origin, args = get_origin(tp), get_args(tp)
        pairs = list(enumerate(value))
        if isinstance(tp, Mapping):
            rules = cast("JsonObject", tp)
            items = self._children(lambda _: _item(rules), pairs, depth, in_text, path)
            return [each for each in items.values() if each is not NOTHING]
        if _is_any(tp) or tp is list:
            return value
        kind = cast("type[object] | None", origin if isinstance(origin, type) else None)
        if kind is None or not issubclass(kind, (list, set, frozenset, tuple, Sequence)):
            return NOTHING
        items = self._children(
            _item_types(cast("type[object]", kind), args), pairs, depth, in_text, path
        )
        listed = [each for each in items.values() if each is not NOTHING]
        if issubclass(kind, tuple):
            return tuple(listed)
        if issubclass(kind, set | frozenset):
            return set(listed) if issubclass(kind, set) else frozenset(listed)
        return listed

    def _arm(self, tp: object, value: Json, depth: int, in_text: bool, path: Path) -> object:
        """The value as the only type of a union that it can still become."""
        arms = [arm for arm in get_args(tp) if arm is not type(None)]
        grown: list[object] = []
        for index, arm in enumerate(arms):
            if isinstance(value, dict) and not self._could_be(arm, value, path, index):
                continue
            # each arm reads the value in its own way, so what is validated is kept apart
            each = self._grow(arm, value, depth, in_text, (*path, f"|{index}"))
            if each is not NOTHING:
                grown.append(each)
        return grown[0] if len(grown) == 1 else NOTHING

    def _could_be(self, arm: object, value: JsonObject, path: Path, index: int) -> bool:
        """Whether the fields that are complete belong to a type and fit it."""
        known = _fields_of(_plain_type(arm))
        if known is None:
            return True
        config = getattr(_plain_type(arm), "__struct_config__", None)
        tag_field = cast("str | None", getattr(config, "tag_field", None))
        types = {field.key: field.type for field in known}
        keys = list(value)
        for key in keys:
            if key == tag_field:
                if key != keys[-1] and value[key] != getattr(config, "tag", None):
                    return False
            elif key not in types:
                return False
            elif key != keys[-1]:
                place = (*path, f"|{index}", key)
                if self._grow(types[key], value[key], 0, False, place) is NOTHING:
                    return False
        return True


class JsonPrefix(NamedTuple):
    """The beginning of a JSON text, completed: how many containers are open, and if a text is."""

    value: Json
    depth: int
    in_text: bool


_STRING = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_SCALAR = re.compile(r'[^\s,:"\[\]{}]+')
_SPACE = re.compile(r"\s*")
# also the first half of a surrogate pair, which is not text before its second half comes
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2})?\Z")


class PartialJson:
    """JSON that comes in pieces; each character is looked at once."""

    __slots__ = ("_at", "_ends", "_is_done", "_is_key", "_stack", "_string", "text")

    def __init__(self) -> None:
        self.text = ""
        self._at = 0
        self._stack: list[str] = []
        self._ends: list[int] = []
        """By open container: where its last complete member ends."""
        self._is_key = False
        """Whether the next text of the innermost object is a key."""
        self._string = -1
        """Where the text begins that is being read."""
        self._is_done = False

    def add(self, delta: str) -> None:
        """Read on."""
        self.text += delta
        if self._at == 0 and not self._begin():
            return
        while not self._is_done and self._step():
            pass

    def read(self) -> JsonPrefix | None:
        """What there is so far; None where nothing is complete enough to be shown."""
        start = self.text.find("\n") + 1 if self.text.lstrip().startswith("```") else 0
        in_text = self._string >= 0 and not self._is_key
        if self._is_done:
            completed = self.text[start : self._at]
        elif in_text:
            completed = _CUT_ESCAPE.sub("", self.text[start:]) + '"' + self._closing()
        elif self._stack:
            # a key without its value, and half a number, are left out
            completed = self.text[start : self._ends[-1]] + self._closing()
        else:
            return None
        try:
            value: Json = msgspec.json.decode(completed)
        except msgspec.DecodeError:
            return None
        return JsonPrefix(value, len(self._stack), in_text)

    def _closing(self) -> str:
        return "".join("}" if one == "{" else "]" for one in reversed(self._stack))

    def _begin(self) -> bool:
        """Whether JSON has begun; a model may put a code fence before it."""
        text = self.text.lstrip()
        if text.startswith("`"):
            if not text.startswith("```") or "\n" not in text:
                return False
            self._at = self.text.index("\n", self.text.index("```")) + 1
        return bool(text)

    def _step(self) -> bool:
        """Read one sign; False where more text is needed."""
        text = self.text
        if self._string >= 0:
            return self._read_string()
        space = _SPACE.match(text, self._at)
        self._at = space.end() if space is not None else self._at
        if self._at >= len(text):
            return False
        sign = text[self._at]
        if sign in "{[":
            self._stack.append(sign)
            self._at += 1
            self._ends.append(self._at)
            self._is_key = sign == "{"
        elif sign in "}]":
            if not self._stack:
                return False
            self._stack.pop()
            self._ends.pop()
            self._at += 1
            self._end_member()
        elif sign == '"':
            self._string = self._at
            self._at += 1
        elif sign == ",":
            self._at += 1
            self._is_key = bool(self._stack) and self._stack[-1] == "{"
        elif sign == ":":
            self._at += 1
            self._is_key = False
        else:
            scalar = _SCALAR.match(text, self._at)
            if scalar is None or scalar.end() == len(text):
                return False  # 12 may become 123
            self._at = scalar.end()
            self._end_member()
        return True

    def _read_string(self) -> bool:
        ends = _STRING.match(self.text, self._at)
        self._at = ends.end() if ends is not None else self._at
        if self._at >= len(self.text) or self.text[self._at] != '"':
            return False
        self._at += 1
        self._string = -1
        if not self._is_key:
            self._end_member()
        return True

    def _end_member(self) -> None:
        if self._stack:
            self._ends[-1] = self._at
        else:
            self._is_done = True


# --- types


def _has_result(tp: object) -> bool:
    """Whether an object with one key `result` is the answer itself."""
    plain = _plain_type(tp)
    if isinstance(plain, Mapping):
        return cast("JsonObject", plain).get("type") == "object"
    if is_union(plain):
        return any(_has_result(arm) for arm in get_args(plain))
    return _fields_of(plain) is not None or get_origin(plain) is dict or plain is dict


def _plain_type(tp: object) -> object:
    """The type itself, without what is said of it."""
    while True:
        if get_origin(tp) in (Annotated, typing.Required, typing.NotRequired):
            tp = get_args(tp)[0]
        elif isinstance(tp, typing.NewType):
            tp = tp.__supertype__
        elif type(tp).__name__ == "TypeAliasType":
            tp = cast("object", getattr(tp, "__value__", None))
        elif is_union(tp) and len(arms := [a for a in get_args(tp) if a is not type(None)]) == 1:
            tp = cast("object", arms[0])
        else:
            return tp


def _is_free_text(tp: object) -> bool:
    """Whether any text is right, so that its beginning is right too."""
    if isinstance(tp, Mapping):
        rules = cast("JsonObject", tp)
        return rules.get("type", "string") == "string" and not (
            {"enum", "const", "pattern", "format", "$ref", "anyOf"} & set(rules)
        )
    plain = _plain_type(tp)
    if is_union(plain):
        return any(_is_free_text(arm) for arm in get_args(plain))
    return plain is str or _is_any(plain)


def _is_any(tp: object) -> bool:
    return tp is object or tp is typing.Any


def _whole(tp: object, value: Json) -> object:
    """A value that is complete, as its type; NOTHING if it does not fit."""
    try:
        if isinstance(tp, _ValidatedValue):
            return tp.convert(value)
        if isinstance(tp, Mapping):
            fits = next(validator(cast("JsonObject", tp)).iter_errors(value), None) is None
            return value if fits else NOTHING
        return schema.validate_value(tp, value, where="answer")
    except (WeftError, ValueError, TypeError):
        return NOTHING


class _ValidatedValue(NamedTuple):
    """A field of a pydantic model that has validators of its own."""

    model: "type[pydantic.BaseModel]"
    name: str
    type: object

    def convert(self, value: Json) -> object:
        """The value as the model's own validators make it."""
        blank = self.model.model_construct()
        self.model.__pydantic_validator__.validate_assignment(blank, self.name, value)
        return cast("object", getattr(blank, self.name))


def _fields_of(tp: object) -> tuple[Field, ...] | None:
    """The fields of a record, pydantic's models too; None for any other type."""
    if not isinstance(tp, type):
        tp = get_origin(tp) if is_pydantic(get_origin(tp)) else None
    return _fields_of_type(tp) if isinstance(tp, type) else None


@functools.lru_cache(maxsize=512)
def _fields_of_type(tp: type[object]) -> tuple[Field, ...] | None:
    if hasattr(tp, "model_fields"):
        return _model_fields(cast("type[pydantic.BaseModel]", tp))
    return fields_of(tp)


def _model_fields(model: "type[pydantic.BaseModel]") -> tuple[Field, ...] | None:
    import pydantic

    # its one value is the JSON itself: there are no fields that could come
    if issubclass(model, pydantic.RootModel):
        return None
    decorators = model.__pydantic_decorators__
    checked = {name for one in decorators.field_validators.values() for name in one.info.fields}
    # an assignment runs the validators of the whole model too, and fails on a frozen one
    alone = not decorators.model_validators and not model.model_config.get("frozen")
    fields: list[Field] = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
        tp: object = field.annotation
        if field.metadata:
            tp = Annotated[(tp, *field.metadata)]
        if checked & {name, "*"} and alone:
            tp = _ValidatedValue(model, name, tp)
        required = field.is_required()
        default = None if required else functools.partial(_model_default, field)
        fields.append(Field(name, alias or name, tp, default, required))
    return tuple(fields)


def _model_default(field: "pydantic.fields.FieldInfo") -> object:
    return cast("object", field.get_default(call_default_factory=True, validated_data={}))


def _instance(tp: object, known: tuple[Field, ...], fields: Mapping[str | int, object]) -> object:
    """A record with what has come of its fields; no check of the whole is run on it."""
    present = {
        field.name: fields[field.key]
        for field in known
        if fields.get(field.key, NOTHING) is not NOTHING
    }
    kind = cast("type[object]", tp if isinstance(tp, type) else get_origin(tp))
    if typing.is_typeddict(kind):
        return present
    try:
        values = {
            name: present[name] if name in present else default() if default else None
            for name, _, _, default, _ in known
        }
        if hasattr(kind, "model_construct"):
            model = cast("type[pydantic.BaseModel]", kind)
            instance = model.model_construct(_fields_set=set(present))
            attributes = cast("dict[str, object]", vars(instance))
            attributes.clear()  # defaults stand first there
            attributes.update(values)
            return instance
        if issubclass(kind, msgspec.Struct):
            return kind(**values)
        # `__init__` and `__post_init__` may check the whole, which has not come
        record = object.__new__(kind)
        for name, value in values.items():
            object.__setattr__(record, name, value)
        return record
    except (TypeError, ValueError, AttributeError):
        return NOTHING


def _item_types(kind: type[object], args: tuple[object, ...]) -> Callable[[str | int], object]:
    """The type of each item of a list or a tuple."""
    if not issubclass(kind, tuple) or (len(args) == 2 and args[1] is ...):
        each = args[0] if args else object
        return lambda _: each
    return lambda index: args[cast("int", index)] if cast("int", index) < len(args) else NOTHING


# --- JSON Schemas


def _property(rules: JsonObject, key: str | int) -> object:
    """The schema of a property."""
    rules = _resolve_reference(rules, rules)
    properties = rules.get("properties")
    each = properties.get(cast("str", key)) if isinstance(properties, dict) else None
    if each is None:
        each = rules.get("additionalProperties", {})
    return _within(each, rules)


def _item(rules: JsonObject) -> object:
    """The schema of the items of a list."""
    return _within(_resolve_reference(rules, rules).get("items", {}), rules)


def _within(each: Json, rules: JsonObject) -> object:
    """A schema inside another, with the definitions it may refer to."""
    if not isinstance(each, dict):
        return {}
    resolved = _resolve_reference(each, rules)
    definitions = rules.get("$defs")
    return {**resolved, "$defs": definitions} if definitions is not None else resolved


def _resolve_reference(each: JsonObject, rules: JsonObject) -> JsonObject:
    """The schema that a reference names."""
    reference = each.get("$ref")
    definitions = rules.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, dict):
        return each
    named = definitions.get(reference.removeprefix("#/$defs/"))
    return {**named, "$defs": definitions} if isinstance(named, dict) else each
