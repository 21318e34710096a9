"""ACP: an agent in an editor, on stdin and stdout.

`weft acp pkg.module:agent` is the command that the editor starts. Its sessions are those of the
store: they are loaded, resumed and forked, also by another process. A call that asks for approval
asks the editor's user for permission. Of an editor that is closed meanwhile, the question stays in
the log and is asked again with the next prompt.
"""

import os
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TypeAlias, cast

import acp
from acp import schema
from acp.core import DEFAULT_STDIO_BUFFER_LIMIT_BYTES
from acp.interfaces import Client
from acp.stdio import stdio_streams

from weft import __version__
from weft.content import Content, Part
from weft.declare.config import RunConfig
from weft.declare.tool import Tool
from weft.media import base64_bytes
from weft.runtime import Runner
from weft.runtime.approvals import Approve, Deny, Pending, pending_in
from weft.server.access import Limits
from weft.server.asking import find_session, in_words, replies
from weft.server.problems import problem_of
from weft.server.run_pieces import (
    CallPiece,
    EndPiece,
    ResultPiece,
    RunPiece,
    TextPiece,
    pieces_of_event,
    pieces_of_run,
    result_text,
)
from weft.server.served import ServedApps
from weft.session import Session, SessionKey
from weft.session.event import new_id
from weft.tools.mcp import MCP
from weft.tools.remote import make_name
from weft.values import compact

Block: TypeAlias = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)
McpServers: TypeAlias = Sequence[
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
]

USER = "user"
"""Whose sessions they are: those of whoever sits at the editor."""

_OPTIONS = [
    schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
    schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
]


class EditorAgent:
    """One app for one editor."""

    def __init__(self, served: ServedApps, runner: Runner) -> None:
        self._served = served
        self._runner = runner
        self._tools: dict[str, list[Tool]] = {}
        """The tools of the editor's MCP servers, by session."""

    def on_connect(self, conn: Client) -> None:
        """The editor is there."""
        self._editor = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: schema.ClientCapabilities | None = None,
        client_info: schema.Implementation | None = None,
        **kwargs: object,
    ) -> schema.InitializeResponse:
        """Say what this agent can do."""
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, acp.PROTOCOL_VERSION),
            agent_info=schema.Implementation(name=self._runner.app_name, version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=True, audio=True, embedded_context=True
                ),
                mcp_capabilities=schema.McpCapabilities(http=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
        )

    # --- sessions

    async def new_session(
        self, cwd: str, mcp_servers: McpServers | None = None, **kwargs: object
    ) -> schema.NewSessionResponse:
        """Begin a session; the editor's folder is `{cwd}` in its state."""
        key = self._key(new_id())
        self._tools[key.id] = await _list_tools(mcp_servers or ())
        await self._runner.store.create(key, state={"cwd": cwd})
        return schema.NewSessionResponse(session_id=key.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: McpServers | None = None, **kwargs: object
    ) -> schema.LoadSessionResponse:
        """Show a session once more, and go on with it."""
        session = await self._session(session_id)
        self._tools[session_id] = await _list_tools(mcp_servers or ())
        for event in session.events:
            if event.author == "user" and event.text:
                await self._editor.session_update(
                    session_id, acp.update_user_message_text(event.text)
                )
                continue
            for piece in pieces_of_event(event):
                await self._show(session_id, piece)
        return schema.LoadSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, mcp_servers: McpServers | None = None, **kwargs: object
    ) -> schema.ResumeSessionResponse:
        """Go on with a session that the editor still shows."""
        await self._session(session_id)
        self._tools[session_id] = await _list_tools(mcp_servers or ())
        return schema.ResumeSessionResponse()

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: McpServers | None = None, **kwargs: object
    ) -> schema.ForkSessionResponse:
        """A new session that begins as another."""
        await self._session(session_id)
        tools = await _list_tools(mcp_servers or ())
        fork = await self._runner.fork(user_id=USER, session_id=session_id)
        self._tools[fork.id] = tools
        return schema.ForkSessionResponse(session_id=fork.id)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **kwargs: object
    ) -> schema.ListSessionsResponse:
        """The sessions of the editor's user, those of one folder where it asks for that."""
        listed: list[schema.SessionInfo] = []
        for info in await self._runner.store.sessions(self._runner.app_name, USER):
            session = await self._session(info.key.id)
            folder = str(session.state.get("cwd", ""))
            if cwd is not None and folder != cwd:
                continue
            first = next((one.text for one in session.events if one.author == "user"), "")
            updated = datetime.fromtimestamp(session.last_update_time, UTC).isoformat()
            listed.append(
                schema.SessionInfo(
                    session_id=session.id, cwd=folder, title=first[:80] or None, updated_at=updated
                )
            )
        return schema.ListSessionsResponse(sessions=listed)

    async def close_session(self, session_id: str, **kwargs: object) -> None:
        """Stop what runs in a session; it stays in the store."""
        await self.cancel(session_id)
        self._tools.pop(session_id, None)

    async def cancel(self, session_id: str, **kwargs: object) -> None:
        """Stop the session's run."""
        await self._session(session_id)
        await self._served.cancel(self._runner, self._key(session_id))

    def _key(self, id: str) -> SessionKey:
        return SessionKey(self._runner.app_name, USER, id)

    async def _session(self, id: str) -> Session:
        session = await find_session(self._runner, USER, id)
        if session is None:
            raise acp.RequestError.resource_not_found(f"session {id[:100]}")
        return session

    # --- prompts

    async def prompt(
        self, session_id: str, prompt: list[Block], **kwargs: object
    ) -> schema.PromptResponse:
        """Run the agent, show what it does, and ask for permission where it needs one."""
        parts = tuple(map(_read_block, prompt))
        if not parts:
            raise acp.RequestError.invalid_params({"prompt": "it is empty"})
        session = await self._session(session_id)
        answers = replies(session, parts) if session.waiting else None
        stop: str | None = None
        # questions that an earlier process left come first: the prompt goes on after them
        asked = [one for one in pending_in(session) if one.kind == "confirm"]
        if asked and not answers:
            stop = await self._ask_and_go_on(session_id, asked)
        if stop is None or stop == "end_turn":
            message = None if answers else Content(role="user", parts=parts)
            stop = await self._run(session_id, message, answers, _config_for(prompt))
        return schema.PromptResponse(stop_reason="cancelled" if stop == "cancelled" else "end_turn")

    async def _run(
        self,
        session_id: str,
        message: Content | None,
        answers: dict[str, object] | None,
        config: RunConfig | None = None,
    ) -> str:
        try:
            run = await self._served.start(
                self._runner,
                message,
                user=USER,
                session=session_id,
                answers=answers,
                tools=self._tools.get(session_id, ()),
                config=config,
                follow=True,
            )
        except Exception as error:
            problem = problem_of(error)
            raise acp.RequestError(-32602, f"{problem.detail} {problem.hint}".strip()) from None
        end: EndPiece | None = None
        async for piece in pieces_of_run(run.events(), run.final_session, run.id):
            if isinstance(piece, EndPiece):
                end = piece
            else:
                await self._show(session_id, piece)
        if end is None or end.outcome == "done":
            return "end_turn"
        if end.outcome == "waiting":
            return await self._ask_and_go_on(session_id, end.questions)
        if end.outcome == "failed":
            raise acp.RequestError(-32603, end.words)
        return "cancelled"

    async def _ask_and_go_on(self, session_id: str, questions: Sequence[Pending]) -> str:
        """Ask for permissions and go on; other questions are said, and the next prompt answers."""
        answers: dict[str, object] = {}
        for one in questions:
            if one.kind != "confirm":
                continue
            update = schema.ToolCallUpdate(
                tool_call_id=one.call_id, title=one.question, status="pending", raw_input=one.args
            )
            response = await self._editor.request_permission(session_id, update, _OPTIONS)
            if isinstance(response.outcome, schema.DeniedOutcome):
                return "cancelled"  # the question stays open
            is_yes = response.outcome.option_id == "allow"
            answers[one.call_id] = Approve() if is_yes else Deny("the user rejected it")
        if answers:
            return await self._run(session_id, None, answers)
        words = in_words(questions)
        await self._editor.session_update(session_id, acp.update_agent_message_text(words))
        return "end_turn"

    async def _show(self, session_id: str, piece: RunPiece) -> None:
        update: object
        match piece:
            case TextPiece(is_thought=True):
                update = acp.update_agent_thought_text(piece.delta)
            case TextPiece():
                update = acp.update_agent_message_text(piece.delta)
            case CallPiece():
                call = piece.call
                title = f"{call.name} {compact(call.args or {})}"[:200]
                update = acp.start_tool_call(
                    call.id or "", title, status="in_progress", raw_input=call.args or {}
                )
            case ResultPiece():
                response = piece.result.response or {}
                text = acp.tool_content(acp.text_block(result_text(piece.result)))
                update = acp.update_tool_call(
                    piece.result.id or "",
                    status="failed" if [*response] == ["error"] else "completed",
                    content=[text],
                    raw_output=response,
                )
            case _:
                return
        await self._editor.session_update(session_id, cast("schema.AgentMessageChunk", update))

    # --- what is not offered

    async def authenticate(self, method_id: str, **kwargs: object) -> None:
        """Refuse: there is nothing to log in to."""
        raise acp.RequestError.method_not_found("authenticate")


def _config_for(prompt: Sequence[Block]) -> RunConfig | None:
    """The text of a file that the editor puts into a prompt is not the user's word."""
    if any(isinstance(block, schema.EmbeddedResourceContentBlock) for block in prompt):
        return RunConfig(user="untrusted")
    return None


def _read_block(block: Block) -> Part:
    """A part of a prompt, as a model gets it."""
    match block:
        case schema.TextContentBlock():
            return Part(text=block.text)
        case schema.ImageContentBlock() | schema.AudioContentBlock():
            try:
                return Part.from_bytes(base64_bytes(block.data), block.mime_type)
            except ValueError:
                raise acp.RequestError.invalid_params({"data": "it is not base64"}) from None
        case schema.ResourceContentBlock():
            return Part(text=f"[{block.name}]({block.uri})")
        case _:
            resource = block.resource
            if isinstance(resource, schema.BlobResourceContents):
                raise acp.RequestError.invalid_params({"resource": "only texts are taken"})
            return Part(text=f"{resource.uri}:\n{resource.text}")


async def _list_tools(servers: McpServers) -> list[Tool]:
    """The tools of the MCP servers that the editor names."""
    if not servers:
        return []

    tools: list[Tool] = []
    for one in servers:
        prefix = f"{make_name(one.name)}_"  # the agent may have a tool of the same name
        match one:
            case schema.McpServerStdio():
                env = {pair.name: pair.value for pair in one.env}
                server = MCP(one.command, one.args, name=one.name, prefix=prefix, env=env)
            case schema.HttpMcpServer():
                headers = {pair.name: pair.value for pair in one.headers}
                server = MCP(one.url, name=one.name, prefix=prefix, headers=headers)
            case _:
                words = f"the MCP server {one.name!r} is of a type that is not spoken here"
                raise acp.RequestError.invalid_params({"mcpServers": words})
        tools += await server.get_tools()
    return tools


@asynccontextmanager
async def serve_editor(runner: Runner) -> AsyncGenerator[EditorAgent]:
    """The agent, until the editor is closed."""
    served = ServedApps([runner], limits=Limits(), recover=0.0)
    try:
        yield EditorAgent(served, runner)
    finally:
        await served.shut_down(0.0)


async def run_stdio(agent: EditorAgent) -> None:
    """Answer on stdin and stdout until the editor closes them."""
    with _only_writer_of_stdout():
        reader, writer = await stdio_streams(limit=DEFAULT_STDIO_BUFFER_LIMIT_BYTES)
    await acp.run_agent(cast("acp.Agent", agent), writer, reader, use_unstable_protocol=True)


@contextmanager
def _only_writer_of_stdout() -> Generator[None]:
    """Give stdout to the block: whatever else prints, tools among it, prints to stderr."""
    stdout = sys.stdout
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout = stdout
