"""Code does not get out: every attempt fails inside, for root and for a plain user.

Each attempt is tried outside first, by the same user: there it must succeed, or it shows nothing.
"""

import json
from collections.abc import Iterator

import pytest

from tests.tools.escapes import WAYS, fill, planted
from tests.tools.users import Person, myself, plain_user, skip_without_sandbox


@pytest.fixture(scope="module", params=["root", "plain"])
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    me = myself()
    if request.param == me.name:
        yield me
    elif request.param == "root":
        pytest.skip("the tests do not run as root")
    else:
        with plain_user() as other:
            if isinstance(other, str):
                pytest.skip(f"NO PLAIN USER HERE: {other}")
            yield other


def try_all(person: Person, way: str, attempts: list[tuple[str, str, bool]]) -> dict[str, str]:
    """What came of each, tried by that person: inside, or outside."""
    told = person.run("-m", "tests.tools.escapes", way, given=json.dumps(attempts).encode())
    found: dict[str, str] = json.loads(told)
    assert found.keys() == {name for name, _, _ in attempts}
    return found


@pytest.mark.parametrize("way", WAYS)
def test_no_attempt_gets_out(person: Person, way: str) -> None:
    if way == "full":
        skip_without_sandbox(person)
    assert len({one.name for one in WAYS[way]}) == len(WAYS[way]) >= 25
    # a normal program works, before and after all that, and is read
    first, last = ("first", "print('ESCAPED')", True), ("last", "print('ESCAPED')", True)
    with planted() as names:
        attempts = [(one.name, fill(one.code, names), one.alone) for one in WAYS[way]]
        told = try_all(person, way, [first, *attempts, last])
    escaped = {name: text[:300] for name, text in told.items() if "ESCAPED" in text}
    assert [*escaped] == ["first", "last"], escaped


@pytest.mark.parametrize("way", WAYS)
def test_every_attempt_succeeds_where_nothing_keeps_it(person: Person, way: str) -> None:
    shown = [one for one in WAYS[way] if person.name == "root" or not one.root_only]
    with planted() as names:
        controls = [(one.name, fill(one.control, names), True) for one in shown]
        told = try_all(person, "outside", controls)
    failed = {name: text[-300:] for name, text in told.items() if "ESCAPED" not in text}
    # a machine may have no such system call for anybody
    refused = {name for name, text in failed.items() if "the kernel refuses" in text}
    assert failed.keys() <= refused, failed
    assert len(shown) - len(refused) >= 25
    if refused:
        pytest.skip(f"NOT SHOWN HERE, as this machine refuses it to everybody: {sorted(refused)}")
