"""The texts of a session's artifacts as they were at an event: what templates inserted then."""

from weft.session import ArtifactStore, Session


async def texts_at(artifacts: ArtifactStore, session: Session, index: int) -> dict[str, str]:
    """The text of each artifact that had one before the event at `index`.

    The log says which version that was. One the log does not know was saved in another session
    of the user: of it, the newest.
    """
    owner = (session.app_name, session.user_id, session.id)
    then: dict[str, int] = {}
    later: set[str] = set()
    for at, event in enumerate(session.events):
        if at < index:
            then.update(event.actions.artifact_delta)
        else:
            later.update(event.actions.artifact_delta)
    texts: dict[str, str] = {}
    for name in await artifacts.names(*owner):
        if name in then or name not in later:
            part = await artifacts.load(*owner, name, then.get(name))
            if part is not None and part.text is not None:
                texts[name] = part.text
    return texts
