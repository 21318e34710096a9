"""What a note makes of the value under its key: append, replace, merge, or tick off a checklist."""

from typing import assert_never, cast

import msgspec

from weft.declare.policy_parts import Strategy
from weft.late import late_pattern
from weft.values import Json, JsonObject

_BOX = late_pattern(r"^\s*(?:[-*+]|\d+[.)])\s*\[([ xX])\]\s*(\S.*?)\s*$")


def apply_note(current: Json, note: Json, strategy: Strategy) -> Json:
    """The value of the key after the note; None where there is nothing to note."""
    match strategy:
        case "append":
            listed = _to_list(current)
            # the same note twice in a row is one, as when a turn is resumed
            return listed if listed and listed[-1] == note else [*listed, note]
        case "replace":
            return note
        case "merge":
            return _merge_note(current, _parse_note(note))
        case "checklist":
            return _tick_boxes(current, note)
        case _:
            assert_never(strategy)


def _to_list(current: Json) -> list[Json]:
    if current is None:
        return []
    return [*current] if isinstance(current, list) else [current]


def _parse_note(note: Json) -> Json:
    """A note that is JSON in a text as what it says; any other as it is."""
    if not isinstance(note, str):
        return note
    text = note.strip()
    # models like to put fences around JSON
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text[text.index("\n") + 1 : -3].strip()
    if not text.startswith(("{", "[")):
        return note
    try:
        return cast("Json", msgspec.json.decode(text))
    except msgspec.DecodeError:
        return note


def _merge_note(current: Json, note: Json) -> Json:
    if current is None:
        return note
    if isinstance(current, dict) and isinstance(note, dict):
        merged: JsonObject = {**current}
        for key, value in note.items():
            old = merged.get(key)
            both = isinstance(old, dict | list) and isinstance(value, dict | list)
            merged[key] = _merge_note(old, value) if both else value
        return merged
    united = _to_list(current)
    united += [one for one in _to_list(note) if one not in united]
    return united


def _tick_boxes(current: Json, note: Json) -> Json:
    """The list with the boxes of the note added, or ticked where they are there already."""
    boxes = _boxes(note)
    items: list[Json] = [_item(one) for one in _to_list(current)]
    for box in boxes:
        at = next((i for i, one in enumerate(items) if _same(one, box)), None)
        if at is None:
            items.append(box)
        else:
            items[at] = {**cast("JsonObject", items[at]), "done": box["done"]}
    return items if boxes else None


def _boxes(note: Json) -> list[JsonObject]:
    if isinstance(note, str):
        matches = (_BOX.match(line) for line in note.splitlines())
        return [{"text": box[2], "done": box[1] in "xX"} for box in matches if box is not None]
    boxes = [_item(one) for one in _to_list(note)]
    return [box for box in boxes if box["text"]]


def _item(one: Json) -> JsonObject:
    """A box as it is kept, from a text or an object with a text."""
    if isinstance(one, dict):
        text = one.get("text")
        return {
            **one,
            "text": text if isinstance(text, str) else "",
            "done": one.get("done") is True,
        }
    return {"text": "" if one is None else str(one), "done": False}


def _same(one: Json, box: JsonObject) -> bool:
    return isinstance(one, dict) and _plain(one.get("text")) == _plain(box["text"])


def _plain(text: Json) -> str:
    return " ".join(str(text).casefold().rstrip(".!").split())
