"""Whoever follows CONTRIBUTING adds a format that is read whole; a forgotten place is noticed."""

import json
from pathlib import Path

from tests.support.recipes import Insertion, Place, Recipe

READER = '''def read_parrot(messages: list[Json], id: str, where: str) -> Recording:
    """Messages of Parrot."""
    transcript = Transcript(where, format="parrot")
    for index, message in enumerate(messages):
        transcript.place = f"{where}: messages[{index}]"
        fields = object_in(message)
        words = [text_part(text_at(fields, "line"))] if fields.get("line") else []
        if fields.get("parrot") == "you":
            transcript.user(words)
        elif fields.get("parrot") == "back":
            result = {"result": fields.get("content")}
            id_ = text_at(fields, "tool_call_id")
            transcript.results([result_part("look", result, id=id_)])
        else:
            for call in objects_in(fields.get("tool_calls")):
                function = object_in(call.get("function"))
                arguments = arguments_of(function.get("arguments"))
                words.append(
                    call_part(text_at(function, "name"), arguments, id=text_at(call, "id"))
                )
            transcript.answer(words)
    return transcript.recording(id)


'''

SHAPE = """def _is_parrot(messages: list[JsonObject]) -> bool:
    return all("parrot" in one for one in messages)


"""

TALK = '''def parrot() -> list[Json]:
    """Messages of Parrot."""
    messages: list[Json] = []
    for one in talk():
        if one.who == "call":
            function = {"name": "look", "arguments": {"q": one.text}}
            messages.append({"parrot": "me", "tool_calls": [{"id": one.id, "function": function}]})
        elif one.who == "result":
            messages.append({"parrot": "back", "tool_call_id": one.id, "content": one.text})
        else:
            messages.append({"parrot": "you" if one.who == "user" else "me", "line": one.text})
    return messages


'''

FORMAT = Recipe(
    ("Add a format of recordings",),
    (
        Place(
            "src/weft/recordings/frameworks.py", (Insertion(READER, before="def read_langchain"),)
        ),
        Place(
            "src/weft/recordings/read.py",
            (
                Insertion(
                    "from weft.recordings.frameworks import read_parrot\n",
                    before="from weft.recordings.frameworks import",
                ),
                Insertion(SHAPE, before="def _is_langchain"),
                Insertion(
                    '    Format("parrot", _is_parrot, read_parrot, "messages of Parrot"),\n',
                    before='    Format("pydantic-ai"',
                ),
            ),
            "LIST_FORMATS",
        ),
        Place(
            "tests/recordings/samples/parrot.json", json.dumps([{"parrot": "you", "line": "Hello"}])
        ),
        Place(
            "tests/recordings/samples/parrot.request.json",
            json.dumps({"messages": [{"role": "user", "content": "Hello"}]}),
        ),
        Place(
            "tests/recordings/test_recordings.py",
            (
                Insertion(
                    '    ("parrot.json", "parrot", CHAT, "parrot.request.json", []),\n',
                    before="    # an empty text beside a call",
                ),
            ),
            "EXPECTED",
        ),
        Place(
            "docs/recordings.md",
            (Insertion("| `parrot` | messages of Parrot |\n", before="| `vercel` |"),),
        ),
        Place(
            "tests/recordings/test_accounting.py",
            (
                Insertion(TALK, before="SHAPES: dict"),
                Insertion('    "parrot": parrot,\n', before='    "unknown": lambda'),
            ),
            "SHAPES",
        ),
    ),
    (
        (
            "tests/recordings/test_recordings.py",
            "tests/recordings/test_accounting.py",
            "-k",
            "every_format_has or every_other_format or parrot",
        ),
    ),
)


def test_the_recipe_names_every_place() -> None:
    assert not FORMAT.find_unnamed()


def test_a_format_made_by_the_recipe_is_read_whole_and_a_forgotten_place_is_noticed(
    tmp_path: Path,
) -> None:
    played = FORMAT.play(tmp_path)
    assert played.whole.passed, played.whole.output
    assert not played.unnoticed
