"""Hypothesis strategies: sessions as they occur, and as they should not."""

from hypothesis import strategies as st

from weft import Actions, Content, Event, Part
from weft.content import (
    Blob,
    CodeExecutionResult,
    ExecutableCode,
    call_part,
    media_part,
    opaque_part,
    result_part,
    thought_part,
)

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

words = st.sampled_from(
    [
        "Oslo",
        "book a flight",
        "ja",
        "{not} a {variable?}",
        '{"k": 1}',
        "日本語の文",
        "🙂👍🏽",
        "x" * 300,
    ]
) | st.text(min_size=1, max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
arguments = st.dictionaries(st.sampled_from(["city", "day", "q"]), json_values, max_size=3)

CALLING = {"call", "parallel", "lost", "late", "long", "thought", "reused", "noid"}
REPLYING = {*CALLING, "orphan"} - {"parallel", "lost"}


@st.composite
def turns(draw: st.DrawFn, agents: tuple[str, ...], number: int) -> list[Event]:
    """The events of one invocation: a message, and what agents and tools made of it."""
    invocation = f"i{number}"
    serial = iter(range(1000))

    def event(author: str, role: str, *parts: Part, **more: object) -> Event:
        return Event(
            author=author,
            content=Content(role=role, parts=parts) if parts else None,
            invocation_id=invocation,
            id=f"{invocation}e{next(serial)}",
            timestamp=float(number * 1000 + next(serial)),
            **more,  # type: ignore[arg-type]
        )

    events = [event("user", "user", Part(text=draw(words)))]
    late: list[Event] = []
    for step in range(draw(st.integers(0, 4))):
        agent = draw(st.sampled_from(agents))
        kind = draw(
            st.sampled_from(
                ["text", "text", "call", "call", "parallel", "lost", "late", "long", "orphan",
                 "thought", "media", "state", "wrote", "partial", "branch", "code", "opaque",
                 "reused", "noid", "sameuser"]
            )
        )  # fmt: skip
        ids = [f"{invocation}c{step}{n}" for n in range(3)]
        # drawn only where a call is made: arguments take longer than all the rest of a log
        args = draw(arguments) if kind in CALLING else {}
        reply = {"result": draw(words)} if kind in REPLYING else {}
        if kind == "text":
            events.append(event(agent, "model", Part(text=draw(words))))
        elif kind == "call":
            events.append(event(agent, "model", call_part("look", args, id=ids[0])))
            events.append(event(agent, "user", result_part("look", reply, id=ids[0])))
        elif kind == "parallel":
            events.append(event(agent, "model", *(call_part("look", args, id=i) for i in ids)))
            answered = draw(st.permutations(ids))
            events.append(
                event(agent, "user", *(result_part("look", {"for": i}, id=i) for i in answered))
            )
        elif kind in ("lost", "late", "long"):
            long_running = (ids[0],) if kind == "long" else None
            call = call_part("slow", args, id=ids[0])
            events.append(event(agent, "model", call, long_running_tool_ids=long_running))
            if kind == "long" and draw(st.booleans()):
                pending = result_part("slow", {"status": "pending"}, id=ids[0])
                events.append(event(agent, "user", pending))
                author = draw(st.sampled_from([agent, "user"]))
                late.append(event(author, "user", result_part("slow", reply, id=ids[0])))
            if kind == "late":
                late.append(event(agent, "user", result_part("slow", reply, id=ids[0])))
        elif kind == "orphan":
            events.append(event(agent, "user", result_part("gone", reply, id=ids[0])))
        elif kind == "thought":
            signed = draw(st.sampled_from([None, "c2lnbmF0dXJl"]))
            thought = thought_part(draw(words), signature=signed)
            call = call_part("look", args, id=ids[0])
            events.append(event(agent, "model", thought, Part(text="so"), call))
            events.append(event(agent, "user", result_part("look", reply, id=ids[0])))
        elif kind == "media":
            blob = Part(inline_data=Blob(mime_type="image/png", data=PNG))
            events.append(event("user", "user", blob, Part(text="look at this")))
        elif kind == "state":
            delta = Actions(state_delta={"mood": draw(words)})
            events.append(event(agent, "model", actions=delta))
        elif kind == "wrote":
            text = draw(words)
            key = draw(st.sampled_from(["intent", "draft"]))
            actions = Actions(state_delta={key: text})
            events.append(event(agent, "model", Part(text=text), actions=actions))
        elif kind == "partial":
            events.append(event(agent, "model", Part(text="par"), partial=True))
        elif kind == "branch":
            branch = draw(st.sampled_from(["fan.left", "fan.right", "fan"]))
            events.append(event(agent, "model", Part(text=draw(words)), branch=branch))
        elif kind == "code":
            events.append(
                event(
                    agent,
                    "model",
                    Part(executable_code=ExecutableCode(code="1+1", language="PYTHON")),
                    Part(code_execution_result=CodeExecutionResult("OUTCOME_OK", "2")),
                )
            )
        elif kind == "opaque":
            provider = draw(st.sampled_from(["anthropic", "openai-responses"]))
            events.append(event(agent, "model", opaque_part(provider, {"type": "x", "n": step})))
        elif kind == "reused":
            events.append(event(agent, "model", call_part("look", args, id="same")))
            events.append(event(agent, "user", result_part("look", reply, id="same")))
        elif kind == "noid":
            events.append(event(agent, "model", call_part("look", args)))
            events.append(event(agent, "user", result_part("look", reply)))
        elif kind == "sameuser":
            events.append(
                event("user", "user", Part(text=draw(words)), media_part("image/png", PNG))
            )
    events += late
    if number and draw(st.integers(0, 12)) == 0:
        target = f"i{draw(st.integers(0, number - 1))}"
        rewind = Actions(rewind_before_invocation_id=target)
        events.append(event("user", "user", actions=rewind))
    return events


@st.composite
def logs(draw: st.DrawFn, agents: tuple[str, ...] = ("bot", "helper")) -> list[Event]:
    """Events of a few invocations."""
    count = draw(st.integers(1, 4))
    return [event for n in range(count) for event in draw(turns(agents, n))]
