"""A session as the messages of a provider: what Weft reads it can give back.

Messages are made of the whole log: nothing is left out, shortened or added for a model. Other
agents' words stand as an agent is told of them. System texts are not in a log, and not in messages.
"""

import msgspec

from weft.compiler.compile import compile_request
from weft.compiler.plan import NamedModel
from weft.declare import Agent, C, RunConfig
from weft.dialects import DIALECTS
from weft.dialects.track import LoweringReport
from weft.errors import UsageError
from weft.ir import Block, Item, ResultBlock
from weft.recordings.recording import AGENT, recording_of
from weft.session import Event, Session
from weft.values import JsonObject


def messages_from(session: Session, dialect: str, *, agent: str = "") -> list[JsonObject]:
    """What `Session.to_messages` returns."""
    if dialect not in DIALECTS:
        raise UsageError(
            f"{dialect!r} is not a dialect",
            where="session.to_messages",
            hint=f"pass one of {', '.join(DIALECTS)}",
        )
    speakers = [event.author for event in session.events if event.author not in ("user", "")]
    name = agent or (speakers[-1] if speakers else AGENT)
    model = recording_of(session).model
    config = RunConfig(model=NamedModel(model, dialect), context=C.default().keep_duplicates())
    compiled = compile_request(Agent(name, identity=False), session=session, config=config)
    events = {event.id: event for event in session.events}
    items = [_restore(item, events) for item in compiled.prompt.items if _is_logged(item)]
    report = LoweringReport(dialect=dialect, strict=False, model=model)
    ready, last = DIALECTS[dialect].extend(None, items, report)
    return [entry.wire for entry in (ready if last is None else [*ready, last])]


def _is_logged(item: Item) -> bool:
    """Whether an item is of the log, and not a word that a request needs."""
    return any(block.origin.kind == "event" for block in item.blocks)


def _restore(item: Item, events: dict[str, Event]) -> Item:
    """An item with its results as the log has them: every request bounds very long ones."""
    blocks = tuple(_restore_block(block, events) for block in item.blocks)
    return msgspec.structs.replace(item, blocks=blocks)


def _restore_block(block: Block, events: dict[str, Event]) -> Block:
    if not isinstance(block, ResultBlock) or not block.handle:
        return block
    event = events.get(block.origin.name)
    parts = event.content.parts if event is not None and event.content is not None else None
    result = parts[block.origin.part].function_response if parts else None
    if result is None:
        return block
    return msgspec.structs.replace(block, response=result.response or {}, handle="")
