"""A mask hides what rules find in texts and in JSON, and keeps count of the places."""

import json
import random
import re
from itertools import pairwise

import pytest

from weft import Session
from weft.compiler.mask import Mask, MaskRules
from weft.declare.policy_parts import Redact
from weft.detect.redaction import move_positions, replace_cuts
from weft.values import Json, compact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain", "plain"),
        ('send({"pin":17,"of":{}}) {not json', 'send({"pin":"<PIN_>","of":{}}) {not json'),
        ('x -> {"pin":[1,{"a":2}],"é\\n":"EMP-1234"}', 'x -> {"pin":"<PIN_>","é\\n":"<PATTERN_>"}'),
        ('{"a":"{\\"pin\\":\\"9\\",\\"b\\":1}"}', '{"a":"{\\"pin\\":\\"<PIN_>\\",\\"b\\":1}"}'),
        ("\ud800 EMP-1234 and EMP-9999", "\ud800 <PATTERN_> and <PATTERN_>"),
        ("a@example.org, EMP-1234!", "<EMAIL_>, <PATTERN_>!"),
    ],
)
def test_a_mask_reads_json_in_texts(text: str, shown: str) -> None:
    rules = MaskRules((Redact((), (r"EMP-\d{4}",), ("pin",)), Redact(("email",))))
    mask = Mask(rules, Session("s"))
    assert re.sub(r"_[0-9a-f]{10}>", "_>", mask.text(text)) == shown
    assert mask.text(mask.text(text)) == mask.text(text)


def test_a_value_of_a_wire_is_masked_as_the_value_itself_is() -> None:
    rules = MaskRules(
        (Redact(("email", "card", "phone"), ("EMP-\\d{4}",), ("pin",)), Redact(("ip",)))
    )
    mask = Mask(rules, Session("s"))
    value = {
        "content": [
            {"text": 'x é\n"a@example.org" EMP-1111 at 10.1.2.3 \U0001f600 b@example.org'},
            {"input": {"pin": [1, 2], "card": 4111111111111111, "a@example.org": {}, "n": None}},
        ],
        "arguments": '{"pin":"99","q":1}',
        "empty": [[], {}, "", True],
    }
    text = compact(value)
    cuts = mask.wire_cuts(text, value)
    assert replace_cuts(text, cuts) == compact(mask.value(value))
    assert all(one.end <= other.start for one, other in pairwise(cuts))
    assert len(cuts) == 8


PIECES = (
    "a@example.org", "EMP-1234", "10.1.2.3", " ", "\n", '"', "\\", "é", "\U0001f600", "\ud800", "x",
    "{", "}", '{"a":"b@example.org"}', "<EMAIL_0123456789>", "4111 1111 1111 1111", "\x7f", "\x01",
)  # fmt: skip


def _text(chance: random.Random) -> str:
    return "".join(chance.choice(PIECES) for _ in range(chance.randrange(8)))


def _value(chance: random.Random, depth: int) -> Json:
    kind = chance.randrange(8 if depth else 4)
    if kind < 3:
        return _text(chance)
    if kind == 3:
        return chance.choice([None, True, 4111111111111111, 5, 1.5, 10**20])
    number = chance.randrange(4)
    if kind < 6:
        return {_text(chance): _value(chance, depth - 1) for _ in range(number)}
    return [_value(chance, depth - 1) for _ in range(number)]


def test_several_rules_leave_nothing_for_each_other_in_any_json() -> None:
    chance = random.Random(5)
    rules = (Redact(("email", "phone", "card")), Redact((), (r"EMP-\d{4}",)), Redact(("ip",)))
    mask = Mask(MaskRules(rules), Session("s"))
    for _ in range(600):
        value = _value(chance, 3)
        text = compact(value)
        cuts = mask.wire_cuts(text, value)
        masked = replace_cuts(text, cuts)
        assert json.loads(masked) == json.loads(compact(mask.value(value)))
        assert all(one.end <= other.start for one, other in pairwise(cuts))
        assert move_positions([len(text)], cuts) == [len(masked)]
        words = mask.text(_text(chance) * 2)
        assert mask.text(words) == words
