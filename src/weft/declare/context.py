"""The contexts that callbacks and tools get: state they may change, a session they may read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, cast, runtime_checkable

import msgspec

from weft.content import Content, ContentLike, Part
from weft.declare.policy_parts import MemoryScorer
from weft.errors import DeclarationError, UsageError, describe_kind
from weft.schema import validate_declared
from weft.session.event import EMPTY_ACTIONS, Actions, State
from weft.session.flow import TRUSTED, USER_WORDS, TrustLabel
from weft.session.log import Session
from weft.values import Json, JsonObject

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from weft.declare.tool import Tool

    # A default is only for type checkers: Python below 3.13 knows none.
    DepsT = TypeVar("DepsT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")


class WithDeps(Generic[DepsT]):
    """What a function of the author's is handed: it finds the dependencies of the run there."""

    __slots__ = ()

    _deps: DepsT | None
    agent_name: str

    @property
    def deps(self) -> DepsT:
        """The dependencies of the run, as they were passed: `run(..., deps=obj)`."""
        if self._deps is None:
            agent = self.agent_name
            raise UsageError(
                "the run has no deps",
                where=f"{agent}: ctx.deps" if agent else "ctx.deps",
                hint='pass them: weft.run(agent, "message", deps=...), and again to resume; declare'
                " Agent(deps_type=...) to have that checked at the start",
            )
        return self._deps


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """One text that a memory gave, and where it comes from."""

    id: str
    """The note's id, or the ids of session and event."""
    text: str
    author: str = ""
    session: str = ""
    """The session it was said in."""
    at: float = 0.0
    """When it was said, in seconds since 1970."""
    score: float = 0.0
    """How well it fits the query; the best one has 1."""


class MemorySearch(Protocol):
    """Where what is known of a user is searched; `weft.Memory`, or something of your own."""

    async def search(self, app_name: str, user_id: str, query: str) -> Sequence[Content]:
        """What was said that may answer the query, the best first."""
        ...


@runtime_checkable
class MemoryKeeper(MemorySearch, Protocol):
    """A memory that also says where things come from, is written, and forgets."""

    async def find(
        self,
        app_name: str,
        user_id: str,
        query: str,
        *,
        top_k: int | None = None,
        scorer: MemoryScorer | None = None,
        without: str = "",
    ) -> Sequence[Recollection]:
        """What may answer the query, the best first, with where it comes from."""
        ...

    async def remember(
        self, app_name: str, user_id: str, text: str, *, session: str = "", author: str = ""
    ) -> str:
        """Keep a note for a user, and give its id."""
        ...

    async def forget(self, app_name: str, user_id: str, id: str | None = None) -> int:
        """Delete an entry, or all that is kept for the user."""
        ...


class Surroundings(Protocol):
    """What a context reaches of the run it belongs to."""

    @property
    def session(self) -> Session:
        """The session as it is now."""
        ...

    async def save_artifact(self, name: str, part: Part) -> int:
        """Keep a new version of an artifact."""
        ...

    async def load_artifact(self, name: str, version: int | None) -> Part | None:
        """A version of an artifact, the newest by default."""
        ...

    async def artifact_names(self) -> list[str]:
        """The artifacts of this session and its user."""
        ...

    async def search_memory(self, query: str) -> Sequence[Content]:
        """What was said in the user's sessions."""
        ...

    async def find_memories(
        self, query: str, *, top_k: int | None = None, scorer: MemoryScorer | None = None
    ) -> Sequence[Recollection]:
        """What the memory has on a query, with where it comes from."""
        ...

    async def remember(self, text: str, author: str) -> str:
        """Keep a note in the user's memory."""
        ...


class UserQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool asks the user in the middle of a call."""

    message: str
    key: str = ""
    """What tells it from other questions of the call; empty: by its number."""
    schema: JsonObject | None = None
    """What the answer must be like; None: anything will do."""
    details: JsonObject = {}
    """What whoever shows the question may need, such as the address of a page."""
    notes: JsonObject = {}
    """What the tool needs to go on; it is in the log, and nobody is shown it."""
    is_held: bool = False
    """Whether the call goes on meanwhile, at a server that waits for the answer."""


class UserAnswer(msgspec.Struct, frozen=True):
    """What the user said to a question: `accept` with a content, `decline` or `cancel`."""

    action: str
    content: Json = None

    @staticmethod
    def read(answer: Json, schema: JsonObject | None) -> "UserAnswer":
        """The answer as it was given, or a SchemaError where the question does not take it.

        False declines, None cancels, True accepts. Where the form has one field, its value will do.
        """
        if isinstance(answer, dict) and set(answer) <= {"action", "content"}:
            action = answer.get("action")
            if action in ("decline", "cancel"):
                return UserAnswer(str(action))
            if action == "accept":
                answer = answer.get("content", True)
        if answer is None or answer is False:
            return UserAnswer("cancel" if answer is None else "decline")
        if schema is None:
            return UserAnswer("accept", answer)
        properties = schema.get("properties")
        names = [*properties] if isinstance(properties, dict) else []
        if not isinstance(answer, dict):
            is_value = len(names) == 1 and (answer is not True or _takes_flag(properties, names[0]))
            if is_value or answer is True:
                answer = {names[0]: answer} if is_value else {}
        content: JsonObject = answer if isinstance(answer, dict) else {"answer": answer}
        return UserAnswer("accept", validate_declared(schema, content, where="the answer"))


def _takes_flag(properties: Json, name: str) -> bool:
    rules = properties.get(name) if isinstance(properties, dict) else None
    return isinstance(rules, dict) and rules.get("type") == "boolean"


class PastQuestion(NamedTuple):
    """A question of a call that the log has: its key, what the tool noted, and the answer."""

    key: str
    notes: JsonObject
    answer: UserAnswer | None


class ToolQuestions(Protocol):
    """How a tool asks the user."""

    def past(self) -> Sequence[PastQuestion]:
        """The questions that the call asked before, in their order."""
        ...

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """The answer, where the log has it; else the run stops until it has."""
        ...


class CodeCall(msgspec.Struct, frozen=True):
    """A call that code makes of a tool of its agent."""

    tool: str
    args: JsonObject


class CodeAnswer(msgspec.Struct, frozen=True):
    """What a call that code made came to: a result, and media with it."""

    response: JsonObject
    parts: tuple[Part, ...] = ()


class CodeSteps(Protocol):
    """The steps of code under way: each ends with calls, and stands in the log."""

    @property
    def tools(self) -> "Sequence[Tool]":
        """The tools of the agent that were offered to its model."""
        ...

    @property
    def begun(self) -> float:
        """When the code was first called, in seconds since 1970."""
        ...

    @property
    def media(self) -> Sequence[Part]:
        """What the tools that the code called returned in addition to their results."""
        ...

    def restore(self) -> Iterator[bytes]:
        """The snapshots that the log has, the newest first.

        The next step after one was taken is the one that it was made at.
        """
        ...

    async def load_artifact(self, name: str) -> Part | None:
        """An artifact that the code is given."""
        ...

    async def answer(self, calls: Sequence[CodeCall], snapshot: bytes | None) -> list[CodeAnswer]:
        """Make the calls with which the next step ends, unless the log says what they came to.

        `snapshot` is what the code goes on from after a crash.
        """
        ...

    async def end(self) -> None:
        """Note that the code has ended."""
        ...


class DraftActions:
    """The actions of an event that is being made: set what it does in addition to being said."""

    __slots__ = (
        "artifact_delta",
        "escalate",
        "skip_summarization",
        "state_delta",
        "transfer_to_agent",
    )

    def __init__(self, state: State) -> None:
        self.state_delta = state
        self.artifact_delta: dict[str, int] = {}
        self.transfer_to_agent: str | None = None
        self.escalate: bool | None = None
        self.skip_summarization: bool | None = None

    def to_actions(self, delta: Mapping[str, Json] | None = None) -> Actions:
        """The actions as they go into the event, with `delta` on top of what was written."""
        written = self.state_delta.delta
        # most callbacks change nothing: they share one value
        if (
            not written
            and not delta
            and not self.artifact_delta
            and self.transfer_to_agent is None
            and self.escalate is None
            and self.skip_summarization is None
        ):
            return EMPTY_ACTIONS
        for name, current, kind in (
            ("transfer_to_agent", self.transfer_to_agent, str),
            ("escalate", self.escalate, bool),
            ("skip_summarization", self.skip_summarization, bool),
        ):
            value = cast("object", current)
            if value is not None and not isinstance(value, kind):
                words = "True or None" if kind is bool else "an agent's name"
                raise UsageError(f"it is {value!r}", where=f"actions.{name}", hint=f"set {words}")
        return Actions(
            state_delta={**written, **delta} if delta else dict(written),
            artifact_delta=self.artifact_delta,
            transfer_to_agent=self.transfer_to_agent,
            escalate=self.escalate,
            skip_summarization=self.skip_summarization,
        )


class CallbackContext(WithDeps[DepsT]):
    """What a callback is handed: who runs, the state it may change, the session to read.

    `CallbackContext[Db]` says to a type checker what `deps` is.
    """

    __slots__ = ("_around", "_deps", "actions", "agent_name", "branch", "invocation_id", "state")

    def __init__(
        self,
        *,
        agent_name: str = "",
        invocation_id: str = "",
        branch: str = "",
        state: Mapping[str, Json] | None = None,
        around: Surroundings | None = None,
        deps: DepsT | None = None,
    ) -> None:
        self._deps = deps
        self.agent_name = agent_name
        self.invocation_id = invocation_id
        self.branch = branch
        self.state = State(state)
        self.actions = DraftActions(self.state)
        self._around = around

    @property
    def session(self) -> Session:
        """The session as it is now, to read."""
        self.state.reads.add("session")
        return self._running().session

    @property
    def session_id(self) -> str:
        """Which session it is; unlike `session.id`, this does not count as reading its texts."""
        return self._running().session.id

    @property
    def user_id(self) -> str:
        """Whose session it is."""
        return self._running().session.user_id

    @property
    def app_name(self) -> str:
        """Which app it belongs to."""
        return self._running().session.app_name

    @property
    def user_content(self) -> Content | None:
        """What the user said to start this invocation."""
        self.state.reads.add(USER_WORDS)
        content: Content | None = None
        # from the end up to another invocation: the log may be long
        for event in reversed(self._running().session.events):
            if event.invocation_id != self.invocation_id:
                if content is not None:
                    break
            elif event.author == "user" and not event.results and not event.isolation_scope:
                content = event.content
        return content

    async def save_artifact(self, name: str, content: ContentLike) -> int:
        """Keep a new version of an artifact: text or a Part; gives the version, from 0."""
        part = Part(text=content) if isinstance(content, str) else content
        if not isinstance(part, Part):
            raise UsageError(
                f"{describe_kind(content)} is not an artifact",
                where=f"artifact {name}",
                hint="pass text or a weft.Part",
            )
        version = await self._running().save_artifact(name, part)
        self.actions.artifact_delta[name] = version
        return version

    async def load_artifact(self, name: str, version: int | None = None) -> Part | None:
        """A version of an artifact, the newest by default; None if there is none."""
        self.state.reads.add(f"artifact:{name}")
        return await self._running().load_artifact(name, version)

    async def list_artifacts(self) -> list[str]:
        """The names of the artifacts of this session and its user."""
        names = await self._running().artifact_names()
        self.state.reads.update(f"artifact:{name}" for name in names)  # who wrote it named it
        return names

    async def search_memory(self, query: str) -> Sequence[Content]:
        """What was said in the user's sessions that may answer the query."""
        self.state.reads.add("memory")
        return await self._running().search_memory(query)

    async def find_memories(
        self, query: str, *, top_k: int | None = None
    ) -> Sequence[Recollection]:
        """As `search_memory`, with the author, the session and the time of each."""
        self.state.reads.add("memory")
        return await self._running().find_memories(query, top_k=top_k)

    async def remember(self, text: str) -> str:
        """Keep a note in the user's memory, and give its id; the same text twice is one note."""
        return await self._running().remember(text, self.agent_name)

    def _running(self) -> Surroundings:
        if self._around is None:
            raise UsageError(
                "this context belongs to no run",
                where=type(self).__name__,
                hint="call the tool through weft.run, or pass `around=`",
            )
        return self._around


class Ask(msgspec.Struct, frozen=True):
    """What a `before_tool` callback returns to have the user asked: the call waits for a yes."""

    question: str

    def __post_init__(self) -> None:
        """Refuse a question without words."""
        if not isinstance(cast("object", self.question), str) or not self.question.strip():
            raise DeclarationError(
                f"{self.question!r} is not a question",
                where="Ask",
                hint='write Ask("Really delete it?")',
            )


class ToolContext(CallbackContext[DepsT]):
    """What a tool is handed when it declares a parameter of this type.

    The parameter never appears in the tool's schema. `call_id` is the same when a call is made
    again after a crash: use it as the key of whatever must happen once. `connection` is the
    store's own, inside its transaction, for a tool with `effect="transactional"`.
    """

    __slots__ = (
        "_argument_labels", "_questions", "call_id", "confirmed", "connection", "label", "steps",
    )  # fmt: skip

    def __init__(
        self,
        *,
        agent_name: str = "",
        call_id: str = "",
        invocation_id: str = "",
        branch: str = "",
        state: Mapping[str, Json] | None = None,
        around: Surroundings | None = None,
        confirmed: JsonObject | None = None,
        connection: object = None,
        deps: DepsT | None = None,
        questions: ToolQuestions | None = None,
        label: TrustLabel = TRUSTED,
        argument_labels: Mapping[str, TrustLabel] | None = None,
    ) -> None:
        super().__init__(
            agent_name=agent_name,
            invocation_id=invocation_id,
            branch=branch,
            state=state,
            around=around,
            deps=deps,
        )
        self.call_id = call_id
        self.confirmed = confirmed
        self.connection = connection
        self.steps: CodeSteps | None = None
        """The steps of the code that a tool runs, where it runs some."""
        self._questions = questions
        self.label = label
        """Whose text had influence on the reply that made the call."""
        self._argument_labels = argument_labels or {}

    def argument_label(self, name: str) -> TrustLabel:
        """Whose text had influence on an argument: on the reply, and in what a handle stood for."""
        return self.label | self._argument_labels.get(name, TRUSTED)

    @property
    def questions(self) -> ToolQuestions:
        """The questions of this call to the user, for tools that need more than `ask_user`."""
        if self._questions is None:
            raise UsageError(
                "this context belongs to no run, so there is nobody to ask",
                where="ToolContext.ask_user",
                hint="call the tool through weft.run",
            )
        return self._questions

    async def ask_user(self, message: str, *, schema: JsonObject | None = None) -> Json:
        """Ask the user, and give the answer; None if they decline. The run waits until it comes.

        Then the tool is called again from its beginning, and what it asked before is answered at
        once: so ask before you do anything that must happen once.
        """
        answer = await self.questions.ask(UserQuestion(message=message, schema=schema))
        return answer.content if answer.action == "accept" else None
