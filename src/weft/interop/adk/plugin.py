"""google-adk: `Runner(..., plugins=[WeftPlugin()])` makes its requests cheaper.

Only requests change: the events of a session stay as they are. A request that has function tools,
or none, may get digests with handles, and the tool `recall` with them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

import msgspec

from weft.compaction.compact import protects
from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import Host, HostCompactor, make_recall
from weft.ir.block import RECALL
from weft.values import Json, JsonObject, require_json

_HOST = Host("adk", "WeftPlugin")


class CompactingPlugin:
    """The plugin's own part, without what google-adk wants of one.

    `context` is the policy for every agent, `contexts` for those it names. `compactor` has the
    numbers of all of them, `compactors` those of the agents that have a policy of their own.
    """

    def __init__(
        self,
        *,
        context: Policy | None = None,
        contexts: Mapping[str, Policy] | None = None,
        name: str = "weft",
    ) -> None:
        cast("Callable[..., None]", super().__init__)(name=name)  # google-adk's part keeps it
        self.compactor = HostCompactor(context, where=_HOST.adapter)
        self.compactors = {
            agent: HostCompactor(policy, where=_HOST.adapter)
            for agent, policy in (contexts or {}).items()
        }

    async def before_model_callback(
        self, *, callback_context: object, llm_request: object
    ) -> object:
        """Send other contents with this one request.

        What a policy keeps away from the model is never sent: then the answer is an error.
        """
        agent = text(callback_context, "agent_name")
        compactor = self.compactors.get(agent, self.compactor)
        if field(llm_request, "previous_interaction_id") is not None:
            reason = "the provider keeps the conversation"
            if compactor.context is not None and protects(compactor.context):
                return _refuse(reason)
            compactor.skipped[reason] += 1
            return None
        try:
            _compact(compactor, llm_request, _conversation_of(callback_context))
        except Exception as error:  # only a policy that protects lets one through
            return _refuse(f"{type(error).__name__}: {error}")
        return None


def _conversation_of(context: object) -> str:
    """The session of a run, and the agent: its sub-agents see other messages."""
    session = field(context, "session")
    names = (text(session, "user_id"), text(session, "id"), text(context, "agent_name"))
    return "\n".join(names)


def _compact(compactor: HostCompactor, request: object, conversation: str) -> None:
    contents = as_list(request, "contents")
    wires = [cast("JsonObject", _dump(content)) for content in contents]
    outcome = compactor.compact(
        wires,
        dialect="gemini",
        model=text(request, "model"),
        recalls=True,
        head=_head_of(request),
        conversation=conversation,
    )
    if outcome is None:
        return
    after = cast("dict[str, list[Json]]", outcome.request)["contents"]
    make = field(import_module("google.genai.types").Content, "model_validate_json")
    compacted = [
        contents[source]
        if source is not None and wire is wires[source]
        else cast("Callable[[bytes], object]", make)(msgspec.json.encode(wire))
        for source, wire in zip(outcome.sources, after, strict=True)
    ]
    if outcome.tool is not None:
        _offer_recall(request, compactor, conversation)
    setattr(request, "contents", compacted)  # noqa: B010  a field of a foreign object


def _head_of(request: object) -> JsonObject:
    """What stands in the request besides its contents, as far as it decides about them."""
    config = field(request, "config")
    head: JsonObject = {}
    system = field(config, "system_instruction")
    if isinstance(system, str) and system:
        head["systemInstruction"] = {"parts": [{"text": system}]}
    if tools := as_list(config, "tools"):
        head["tools"] = [_dump(tool) for tool in tools]
    if choice := field(config, "tool_config"):
        head["toolConfig"] = _dump(choice)
    if field(config, "response_schema") or field(config, "response_json_schema"):
        head["generationConfig"] = {
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        }
    return head


def _dump(value: object) -> Json:
    dump = field(value, "model_dump")
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else value
    return require_json(dumped, where="request")


def _offer_recall(request: object, compactor: HostCompactor, conversation: str) -> None:
    append = cast("Callable[[list[object]], None]", field(request, "append_tools"))
    if RECALL not in cast("dict[str, object]", field(request, "tools_dict")):
        recall = make_recall(compactor, conversation)
        append([_HOST.find("google.adk.tools", "FunctionTool")(recall)])


def _refuse(why: str) -> object:
    """The answer that google-adk gets for a request that is not sent."""
    response = _HOST.find("google.adk.models", "LlmResponse")
    return response(error_code="PROTECTED", error_message=f"the request was not sent: {why}")


if TYPE_CHECKING:
    WeftPlugin = CompactingPlugin
else:
    __getattr__ = _HOST.offer(CompactingPlugin, "google.adk.plugins.base_plugin", "BasePlugin")
