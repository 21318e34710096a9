"""What Weft keeps on events and parts: one struct each, read leniently, written without loss."""

import inspect
import re
from pathlib import Path

import msgspec

import weft
from weft.content import Part, PartProvenance
from weft.session import Event, Session
from weft.session.provenance import NOTHING, BranchDelta, Charge, JoinedBranch, Provenance
from weft.values import JsonObject


def test_notes_are_added_and_everything_else_stays_where_it_was() -> None:
    before: JsonObject = {"audited": True, "weft": {"ours": {"new": 1}, "pending": ["a"]}, "z": 0}
    after = Provenance(pending=["b"], rejected="no JSON").onto(before)
    assert after == {
        "audited": True,
        "weft": {"ours": {"new": 1}, "pending": ["b"], "rejected": "no JSON"},
        "z": 0,
    }
    assert [*after] == [*before]
    assert before["weft"] == {"ours": {"new": 1}, "pending": ["a"]}


def test_notes_beneath_others_do_not_replace_them() -> None:
    maker = Provenance(provider="gemini", model="g")
    after = maker.beneath({"weft": {"rest": {"a": 1}, "model": "other"}})
    assert msgspec.json.encode(after) == (
        b'{"weft":{"provider":"gemini","model":"other","rest":{"a":1}}}'
    )


def test_an_event_without_metadata_has_no_provenance_of_its_own() -> None:
    assert Event(author="a").provenance is NOTHING
    assert Event(author="a", custom_metadata={"weft": "x"}).provenance == NOTHING
    assert Part(text="a").provenance == PartProvenance()


def test_every_note_comes_back_from_json() -> None:
    notes = Provenance(
        spent=Charge("m", 4, 0.5, 0.01),
        undone=[],
        joined=JoinedBranch("race/a@0", "race.a"),
        forks={"race.a": {}},
        branch_delta=BranchDelta("race.a", {"k": [1]}),
        outcomes={"c1": {"response": {"ok": True}}},
        restored={"[EMAIL_1]": "a@b.c"},
    )
    event = Event(author="race", custom_metadata=notes.onto(None))
    again = Session.from_json(Session(events=[event]).to_json()).events[0]
    assert again.provenance == notes
    assert msgspec.json.encode(again.custom_metadata) == (
        b'{"weft":{"spent":{"model":"m","tokens":4,"seconds":0.5,"money":0.01},'
        b'"restored":{"[EMAIL_1]":"a@b.c"},"outcomes":{"c1":{"response":{"ok":true}}},'
        b'"undone":[],"joined":{"path":"race/a@0","branch":"race.a"},"forks":{"race.a":{}},'
        b'"held":{"branch":"race.a","delta":{"k":[1]}}}}'
    )


def test_a_note_of_the_wrong_type_counts_as_absent_and_spares_the_others() -> None:
    stored: JsonObject = {
        "pending": ["a", 5, "b"],
        "instructions": {"bot[0]": "be kind", "bot[1]": 3},
        "known": "many",
        "joined": {"path": 1},
        "labels": {"secret": True},
        "tags": ["x"],
    }
    notes = Event(author="a", custom_metadata={"weft": stored}).provenance
    assert notes == Provenance(pending=["a", "b"], instructions={"bot[0]": "be kind"}, tags=["x"])


def test_a_part_of_a_provider_is_opaque_and_says_whose_it_is() -> None:
    part = Part(part_metadata=PartProvenance(provider="gemini", payload={"a": 1}).onto(None))
    assert part.part_metadata == {"weft": {"provider": "gemini", "payload": {"a": 1}}}
    assert (part.kind, part.opaque) == ("opaque", ("gemini", {"a": 1}))


def test_every_field_says_what_it_is() -> None:
    for kind in (Provenance, PartProvenance):
        source = inspect.getsource(kind)
        for field in msgspec.structs.fields(kind):
            assert re.search(rf'^    {field.name}: .*\n    """', source, re.M), field.name


def test_only_these_modules_know_where_notes_are_stored() -> None:
    root = Path(weft.__file__).parent
    session = root / "session"
    homes = {root / "content.py", session / "provenance.py", session / "flow.py"}
    spelled = re.compile(r"""(get\(|\[|\{)\s*"weft"(\)|\]|:)|(?<!PRIMARY )\bKEY\b""")
    for path in set(root.rglob("*.py")) - homes:
        for line in path.read_text("utf-8").splitlines():
            if "metadata" in line or "weft" in line:
                assert not spelled.search(line), f"{path}: {line}"
