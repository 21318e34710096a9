"""Approvals: conditions, other arguments, reasons, expiry, and the list of what waits."""

import logging
import time
from pathlib import Path

import pytest

from weft import Agent, Approve, Deny, Event, Result, Runner, Tool, ToolContext, tool
from weft.errors import DeclarationError, SessionError
from weft.testing import ScriptedModel, call

STORES = ("memory://", "sqlite:///{folder}/weft.db")


def payer(paid: list[int], **options: object) -> Tool:
    def pay(amount: int, note: str = "none") -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {amount}"

    return tool(**{"confirm": True, **options})(pay)  # type: ignore[call-overload, no-any-return]


def runner_of(pay: Tool, *calls: object, store: str = "memory://") -> tuple[Runner, ScriptedModel]:
    model = ScriptedModel([*(calls or (call("pay", amount=150),)), "Done."])
    return Runner(Agent("bot", model=model, tools=[pay]), store=store), model


def call_id_of(result: Result) -> str:
    (call_id,) = result.waiting
    return call_id


def results_of(events: tuple[Event, ...]) -> list[dict[str, object]]:
    return [r.response or {} for event in events for r in event.results if r.name == "pay"]  # type: ignore[misc]


async def test_a_condition_decides_which_calls_ask() -> None:
    paid: list[int] = []
    pay = payer(paid, confirm=lambda args, ctx: args["amount"] > 100)
    runner, _ = runner_of(pay, call("pay", amount=90), call("pay", amount=150))
    first = await runner.run("Pay.", session_id="s")
    assert paid == [90]
    assert first.waiting == first.session.waiting != {}
    result = await runner.resume(session_id="s", answers={call_id_of(first): True})
    assert (paid, result.text, result.waiting) == ([90, 150], "Done.", {})


async def test_a_condition_may_be_async_and_read_the_state_and_defaults() -> None:
    paid: list[int] = []

    async def is_new(args: dict[str, object], ctx: ToolContext) -> bool:
        return args["note"] == "none" and not ctx.state.get("trusted")

    pay = payer(paid, confirm=is_new)
    runner, _ = runner_of(pay)
    assert (await runner.run("Pay.", session_id="a")).waiting
    assert paid == []
    runner, _ = runner_of(pay)
    assert not (await runner.run("Pay.", session_id="b", state={"trusted": True})).waiting
    assert paid == [150]


async def test_a_condition_that_raises_asks(caplog: pytest.LogCaptureFixture) -> None:
    paid: list[int] = []
    runner, _ = runner_of(payer(paid, confirm=lambda args, ctx: args["missing"]))
    with caplog.at_level(logging.WARNING, "weft"):
        result = await runner.run("Pay.", session_id="s")
    assert paid == []
    assert "KeyError" in (await runner.pending())[0].question
    assert "KeyError" in caplog.text
    await runner.resume(session_id="s", answers={call_id_of(result): Approve()})
    assert paid == [150]


async def test_a_yes_may_come_with_other_arguments_and_the_model_is_told() -> None:
    paid: list[int] = []
    runner, model = runner_of(payer(paid))
    first = await runner.run("Pay.", session_id="s")
    answers = {call_id_of(first): Approve(args={"amount": 90})}
    result = await runner.resume(session_id="s", answers=answers)
    assert paid == [90]
    (response,) = results_of(result.events)
    assert response["result"] == "paid 90"
    assert '{"amount":90}' in str(response["note"])
    assert '{\\"amount\\":90}' in str(model.wires[-1]) or '{"amount":90}' in str(model.wires[-1])


async def test_arguments_that_do_not_fit_are_refused_and_the_question_stays_open() -> None:
    paid: list[int] = []
    runner, _ = runner_of(payer(paid))
    first = await runner.run("Pay.", session_id="s")
    call_id = call_id_of(first)
    for args in ({"amount": "lots"}, {"amont": 1}, {}):
        with pytest.raises(SessionError, match="pay does not take these arguments"):
            await runner.resume(session_id="s", answers={call_id: Approve(args=args)})  # type: ignore[arg-type]
    session = await runner.session(session_id="s")
    assert session.waiting == first.waiting
    assert len(session.events) == len(first.session.events)
    assert (paid, (await runner.resume(session_id="s", answers={call_id: True})).text) == (
        [150],
        "Done.",
    )


async def test_the_reason_of_a_no_reaches_the_model() -> None:
    paid: list[int] = []
    runner, model = runner_of(payer(paid))
    first = await runner.run("Pay.", session_id="s")
    answers = {call_id_of(first): Deny("over the limit")}
    result = await runner.resume(session_id="s", answers=answers)
    assert (paid, result.text) == ([], "Done.")
    assert "the user refused this call: over the limit" in str(model.wires[-1])


async def test_answered_twice_the_same_changes_nothing_and_another_answer_is_refused() -> None:
    paid: list[int] = []
    runner, _ = runner_of(payer(paid))
    call_id = call_id_of(await runner.run("Pay.", session_id="s"))
    await runner.resume(session_id="s", answers={call_id: Approve()})
    again = await runner.resume(session_id="s", answers={call_id: Approve()})
    assert (paid, again.text) == ([150], "Done.")
    for other in (Deny("no"), Approve(args={"amount": 1}), False):
        with pytest.raises(SessionError, match="has its answer already"):
            await runner.resume(session_id="s", answers={call_id: other})
    assert paid == [150]


async def test_a_late_answer_is_refused_and_the_run_goes_on_without_the_call() -> None:
    paid: list[int] = []
    runner, model = runner_of(payer(paid, confirm_expires=0.01))
    first = await runner.run("Pay.", session_id="s")
    (question,) = await runner.pending()
    assert question.expires is not None
    while time.time() <= question.expires:
        pass
    assert question.is_expired
    for late in (True, Approve(), Deny("no")):
        with pytest.raises(SessionError, match=r"could be answered until .* nothing was run"):
            await runner.resume(session_id="s", answers={call_id_of(first): late})
    result = await runner.resume(session_id="s")
    assert (paid, result.text, result.waiting) == ([], "Done.", {})
    assert "nobody allowed this call in time" in str(model.wires[-1])
    assert await runner.pending() == []


@pytest.mark.parametrize("address", STORES)
async def test_a_question_that_has_expired_stays_so_when_the_clock_goes_back(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []
    store = address.format(folder=tmp_path)
    runner, model = runner_of(payer(paid, confirm_expires=60), store=store)
    call_id = call_id_of(await runner.run("Pay.", session_id="s"))
    true_time = time.time
    monkeypatch.setattr(time, "time", lambda: true_time() + 3600)
    (question,) = await runner.pending()
    with pytest.raises(SessionError, match="could be answered until"):
        await runner.resume(session_id="s", answers={call_id: True})
    monkeypatch.setattr(time, "time", true_time)
    assert question.is_expired
    monkeypatch.setattr("weft.runtime.place._seen_expired", {})  # another process
    for _ in range(2):
        assert [one.is_expired for one in await runner.pending()] == [True]
        with pytest.raises(SessionError, match="could be answered until"):
            await runner.resume(session_id="s", answers={call_id: True})
    session = await runner.store.get(question.key)
    assert session is not None
    assert sum(event.provenance.expired == [call_id] for event in session.events) == 1
    result = await runner.resume(session_id="s")
    assert (paid, result.text, result.waiting) == ([], "Done.", {})
    assert "nobody allowed this call in time" in str(model.wires[-1])
    await runner.close()


async def test_an_answer_in_time_counts_however_late_the_run_goes_on() -> None:
    paid: list[int] = []
    runner, _ = runner_of(payer(paid, confirm_expires=3600))
    call_id = call_id_of(await runner.run("Pay.", session_id="s"))
    assert (await runner.resume(session_id="s")).waiting  # still waits
    assert (await runner.resume(session_id="s", answers={call_id: True})).text == "Done."


@pytest.mark.parametrize("address", STORES)
async def test_what_waits_is_listed_over_all_sessions(address: str, tmp_path: Path) -> None:
    store = address.format(folder=tmp_path)
    runner, _ = runner_of(payer([]), *([call("pay", amount=7)] * 3), store=store)
    async with runner:
        for user, session in (("ann", "a1"), ("bob", "b1"), ("ann", "a2")):
            await runner.run("Pay.", user_id=user, session_id=session)
        assert [(one.user_id, one.session_id) for one in await runner.pending()] == [
            ("ann", "a1"),
            ("bob", "b1"),
            ("ann", "a2"),
        ]
        (one,) = await runner.pending(user_id="bob")
        assert (one.name, one.kind, one.args, one.expires) == (
            "pay",
            "confirm",
            {"amount": 7},
            None,
        )
        assert one.question == 'May pay be called with {"amount":7}?'
        answers = {one.call_id: Deny()}
        await runner.resume(user_id="bob", session_id=one.session_id, answers=answers)
        assert {one.user_id for one in await runner.pending()} == {"ann"}


async def test_a_yes_to_a_call_that_wants_its_result_is_refused() -> None:
    def wait() -> None:
        """Wait."""

    slow = tool(long_running=True)(wait)
    model = ScriptedModel([call("wait"), "Done."])
    runner = Runner(Agent("bot", model=model, tools=[slow]))
    first = await runner.run("Go.", session_id="s")
    assert [one.kind for one in await runner.pending()] == ["result"]
    with pytest.raises(SessionError, match="what it returned is wanted"):
        await runner.resume(session_id="s", answers={call_id_of(first): Approve()})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confirm": "yes"}, "confirm='yes'"),
        ({"confirm": lambda args: True}, r"a condition takes \(args, ctx\)"),
        ({"confirm": True, "confirm_expires": 0}, "confirm_expires=0"),
        ({"confirm": False, "confirm_expires": 5}, "nothing asks"),
    ],
)
def test_a_wrong_declaration_says_what_to_write(options: dict[str, object], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        payer([], **options)


def test_a_reason_is_text() -> None:
    with pytest.raises(SessionError, match="not text"):
        Deny(5).decision("answers")  # type: ignore[arg-type]


async def test_answers_of_the_wrong_form_are_named_and_the_question_stays_open() -> None:
    paid: list[int] = []
    runner, _ = runner_of(payer(paid))
    call_id = call_id_of(await runner.run("Pay.", session_id="s"))
    for wrong, words in (
        ([True], "answers is a list"),
        ({call_id: Approve}, r"(?s)Approve is a class.*write Approve\(\)"),
        ({call_id: Deny}, r"(?s)Deny is a class.*write Deny\(\)"),
    ):
        with pytest.raises(SessionError, match=words):
            await runner.resume(session_id="s", answers=wrong)  # type: ignore[arg-type]
    assert [one.call_id for one in await runner.pending()] == [call_id]
    assert paid == []
