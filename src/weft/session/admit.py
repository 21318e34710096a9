"""What may enter the log: events that are sound, each id once."""

from collections.abc import Iterable
from typing import cast

from msgspec.structs import replace

from weft.content import Content, Part, require_content
from weft.errors import SessionError
from weft.session.event import Actions, Event
from weft.values import Strand, require_object


def admitted(
    events: Iterable[Event], log: Strand[Event], positions: dict[str, int], *, where: str
) -> list[Event]:
    """The events that the log does not have yet, once they are known to be sound."""
    length = log.settled
    fresh: dict[str, Event] = {}
    sound: list[Event] = []
    for index, event in enumerate(events):
        if type(event) is not Event and not isinstance(cast("object", event), Event):
            raise SessionError(
                f"a {type(event).__name__} is not an event",
                where=f"{where}[{index}]",
                hint="pass weft.Event values, or read JSON with Session.from_json",
            )
        name = event.id
        if name and not event.partial:
            at = positions.get(name, length)
            held = log[at] if at < length else fresh.get(name)
            if held is not None:
                if _same(held, event):
                    continue
                raise SessionError(
                    f"two different events have the id `{name}`",
                    where=f"{where}[{index}].id",
                    hint="give each event its own id, or leave `id` out",
                )
            fresh[name] = event
        try:
            _require_sound(event)
        except SessionError as error:
            place = f"{where}[{index}].{error.where}"
            raise SessionError(error.message, where=place, hint=error.hint) from None
        sound.append(event)
    return sound


def _require_sound(event: Event) -> None:
    """Refuse an event that carries what is not JSON, and so could be neither stored nor sent."""
    author, content, actions = event.author, event.content, event.actions
    if type(author) is not str:
        raise _misplaced(author, "author", "text")
    if type(actions) is not Actions:
        raise _misplaced(actions, "actions", "weft.Actions")
    if content is not None:
        if type(content) is not Content:
            raise _misplaced(content, "content", "weft.Content")
        for part in content.parts or ():
            if (
                type(part) is not Part
                or type(part.text) is not str
                or part.function_call is not None
                or part.function_response is not None
                or part.part_metadata is not None
                or part.tool_call is not None
                or part.tool_response is not None
            ):
                require_content(content, where="content")
                break
    if actions.state_delta or type(actions.state_delta) is not dict:
        require_object(actions.state_delta, where="actions.stateDelta")
    if event.custom_metadata:
        require_object(event.custom_metadata, where="customMetadata")


def _misplaced(value: object, where: str, wanted: str) -> SessionError:
    return SessionError(
        f"a {type(value).__name__} stands there", where=where, hint=f"pass {wanted}"
    )


def _same(held: Event, event: Event) -> bool:
    """Whether this is the event the log has, perhaps made again at another time."""
    return held is event or held == replace(event, timestamp=held.timestamp)


def positions_of(log: Strand[Event]) -> dict[str, int]:
    """Where each event stands by its id, kept with the log."""
    held = log.memo.get("positions")
    if held is None:
        held = {event.id: at for at, event in enumerate(log)}
        log.memo["positions"] = held
    return cast("dict[str, int]", held)
