"""What contexts of callbacks and tools reach of a run: its session, artifacts and memory."""

from collections.abc import Sequence

from weft.content import Content, Part
from weft.declare import MemoryKeeper, MemorySearch, Recollection
from weft.declare.policy_parts import MemoryScorer
from weft.errors import UsageError, describe_kind
from weft.runtime.run_log import RunLog
from weft.session import ArtifactStore, Session, Store
from weft.values import handle_of


class RunSurroundings:
    """The artifacts and the memory of the session that a run has."""

    def __init__(
        self, log: RunLog, store: Store, artifacts: ArtifactStore, memory: MemorySearch | None
    ) -> None:
        self._log = log
        self._store = store
        self._artifacts = artifacts
        self._given_memory = memory
        self._texts: dict[str, str] | None = None
        self.known_texts: dict[str, str] = {}
        """The texts of artifacts as the run last read them; empty where it read none."""
        self._texts_after = 0
        """How often artifacts had changed when the texts were read."""
        self._versions: set[tuple[str, int]] | None = None
        """The versions of artifacts that belong to something: to events, or to this run."""

    @property
    def session(self) -> Session:
        """The session as it is now."""
        return self._log.session

    async def save_artifact(self, name: str, part: Part) -> int:
        """Keep a new version of an artifact; one that a crash cut off from its event is used."""
        self._texts = None
        # only a run that was cut off can have left a version that no event names
        if not self._log.resumed:
            return await self._artifacts.save(*self._owner, name, part)
        if self._versions is None:
            deltas = (event.actions.artifact_delta for event in self.session.events)
            self._versions = {pair for delta in deltas for pair in delta.items()}
        version = await self._orphan(name, part)
        if version is None:
            version = await self._artifacts.save(*self._owner, name, part)
        self._versions.add((name, version))
        return version

    async def _orphan(self, name: str, part: Part) -> int | None:
        """The newest version, if it is the same and no event has it: its call was cut off."""
        artifacts = self._artifacts
        newest = max(await artifacts.versions(*self._owner, name), default=None)
        if newest is None or (name, newest) in (self._versions or ()):
            return None
        return newest if await artifacts.load(*self._owner, name, newest) == part else None

    async def load_artifact(self, name: str, version: int | None) -> Part | None:
        """A version of an artifact, the newest by default."""
        return await self._artifacts.load(*self._owner, name, version)

    async def artifact_names(self) -> list[str]:
        """The artifacts of this session and its user."""
        return await self._artifacts.names(*self._owner)

    async def artifact_texts(self) -> dict[str, str]:
        """The newest text of each artifact that has one."""
        changes = self._log.artifact_changes
        if self._texts is None or self._texts_after != changes:
            texts: dict[str, str] = {}
            for name in await self.artifact_names():
                part = await self.load_artifact(name, None)
                if part is not None and part.text is not None:
                    texts[name] = part.text
            self._texts, self._texts_after = texts, changes
            self.known_texts = texts
        return self._texts

    async def search_memory(self, query: str) -> Sequence[Content]:
        """What was said in the user's sessions."""
        return await self._memory.search(self.session.app_name, self.session.user_id, query)

    async def find_memories(
        self, query: str, *, top_k: int | None = None, scorer: MemoryScorer | None = None
    ) -> Sequence[Recollection]:
        """What the memory has on a query, without what this session says itself."""
        app_name, user_id, session_id = self._owner
        memory = self._memory
        if isinstance(memory, MemoryKeeper):
            return await memory.find(
                app_name, user_id, query, top_k=top_k, scorer=scorer, without=session_id
            )
        contents = await memory.search(app_name, user_id, query)
        return [
            Recollection(id=f"memory-{handle_of(one.text)}", text=one.text, author=one.role or "")
            for one in contents[:top_k]
        ]

    async def remember(self, text: str, author: str) -> str:
        """Keep a note in the user's memory."""
        app_name, user_id, session_id = self._owner
        memory = self._memory
        if not isinstance(memory, MemoryKeeper):
            raise UsageError(
                f"{describe_kind(memory)} cannot be written",
                where="Runner.memory",
                hint='pass weft.Memory("sqlite:///weft.db")',
            )
        return await memory.remember(app_name, user_id, text, session=session_id, author=author)

    @property
    def _memory(self) -> MemorySearch:
        """The runner's memory, or the store's own: notes, and all sessions of the user."""
        if self._given_memory is not None:
            return self._given_memory
        from weft.stores.memories import Memory  # it loads much, and few runs search

        return Memory(self._store, sessions=True)

    @property
    def _owner(self) -> tuple[str, str, str]:
        return self.session.app_name, self.session.user_id, self.session.id
