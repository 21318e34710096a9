"""openai-agents: `RunConfig(call_model_input_filter=WeftFilter())` makes its requests cheaper.

The filter sees the input of each request. An agent that has the filter's `tool` among its tools may
get digests with handles. Any other gets only forms that stay in view. The session of a run, and
what it returns, stay as they are.
"""

from collections.abc import Callable
from functools import cached_property
from typing import cast

from weft.declare.policy import Policy
from weft.interop.adk.objects import as_list, field, text
from weft.interop.hosts import Host, HostCompactor, make_recall, offers_recall
from weft.values import JsonObject

_HOST = Host("openai-agents", "WeftFilter")


class WeftFilter:
    """A filter for `RunConfig.call_model_input_filter`.

    `compactor` has the numbers: what was compacted, and what was left as it is.
    """

    def __init__(self, context: Policy | None = None) -> None:
        self.compactor = HostCompactor(context, where=_HOST.adapter)

    @cached_property
    def tool(self) -> object:
        """The tool `recall`, for agents whose results may become digests."""
        return _HOST.find("agents", "function_tool")(make_recall(self.compactor))

    def __call__(self, data: object) -> object:
        """The input of one request after the policy."""
        model_input, agent = field(data, "model_data"), field(data, "agent")
        items = as_list(model_input, "input")
        model = field(agent, "model")
        name = model if isinstance(model, str) else text(model, "model")
        outcome = self.compactor.compact(
            cast("list[JsonObject]", items),
            dialect="openai-responses",
            model=name,
            recalls=offers_recall(as_list(agent, "tools")),
            fixed=text(model_input, "instructions"),
        )
        if outcome is None:
            return model_input
        after = cast("dict[str, object]", outcome.request)["input"]
        make = cast("Callable[..., object]", type(model_input))
        return make(input=after, instructions=field(model_input, "instructions"))
