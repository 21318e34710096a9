"""What an artifact store is: named, versioned parts beside the log.

An artifact belongs to a session. One whose name starts with `user:` belongs to the user, in all
of the user's sessions.
"""

from typing import Protocol

from weft.content import Part


class ArtifactStore(Protocol):
    """Where artifacts are kept."""

    async def save(
        self, app_name: str, user_id: str, session_id: str, name: str, part: Part
    ) -> int:
        """Keep the part as the next version of the artifact; the first version is 0."""
        ...

    async def load(
        self, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None
    ) -> Part | None:
        """That version of the artifact, or the newest, or None."""
        ...

    async def names(self, app_name: str, user_id: str, session_id: str) -> list[str]:
        """The names of the session's artifacts and of the user's, sorted."""
        ...

    async def versions(self, app_name: str, user_id: str, session_id: str, name: str) -> list[int]:
        """The versions there are, oldest first."""
        ...

    async def delete(self, app_name: str, user_id: str, session_id: str, name: str) -> None:
        """Forget the artifact with all its versions."""
        ...
