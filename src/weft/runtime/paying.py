"""What answers cost: tokens as the provider counted them, and money at the model's prices.

Prices are loaded when a run's money is limited, and never else.
"""

from weft.compiler import Compiled
from weft.compiler.effects import effect_of
from weft.compiler.plan import ModelLike
from weft.declare import Agent, Flow, Node, RunConfig, agents_of
from weft.errors import UsageError
from weft.ir import ModelResponse
from weft.session import Event, Usage
from weft.tokens import Counter
from weft.values import JsonObject, compact


def require_prices(root: Node, config: RunConfig) -> None:
    """Refuse to limit the money of a run with a model whose price nobody knows."""
    if config.budget is None or config.budget.money is None:
        return
    unknown = [name for name in _models(root, config) if not _is_priced(name)]
    if unknown:
        raise UsageError(
            f"nobody knows what `{unknown[0]}` costs, so its money cannot be limited",
            where="RunBudget.money",
            hint="limit tokens= or steps= instead, or name a model that has a price",
        )


def _models(root: Node, config: RunConfig) -> list[str]:
    """The names of the models that a run may ask, each once."""
    if config.model is not None:
        return [_name(config.model)]
    found: dict[str, None] = {}
    waiting: list[Node] = [root]
    seen: set[int] = set()
    while waiting:
        for agent in agents_of(waiting.pop()):
            if id(agent) in seen:
                continue
            seen.add(id(agent))
            if agent.model is not None:
                found[_name(agent.model)] = None
            waiting += [tool.agent for tool in agent.tools if isinstance(tool.agent, Agent | Flow)]
    return list(found)


def _name(model: object) -> str:
    return model.name if isinstance(model, ModelLike) else str(model)


def _is_priced(model: str) -> bool:
    from weft.compiler.prices import price_of

    return is_free(model) or price_of(model) is not None


def is_free(model: str) -> bool:
    """Whether a model runs here, so that nobody is paid for it."""
    return model.partition("/")[0].partition(":")[0] == "local"


def told_by(event: Event) -> JsonObject:
    """What an event says it cost."""
    held = (event.custom_metadata or {}).get("weft")
    told = held.get("spent") if isinstance(held, dict) else None
    return told if isinstance(told, dict) else {}


def cost_of(event: Event, *, priced: bool) -> tuple[int, float]:
    """The tokens and dollars of an event, as it says, else as its usage says."""
    told = told_by(event)
    tokens, money = told.get("tokens"), told.get("money")
    counted = tokens if isinstance(tokens, int) else tokens_of(event.usage) or 0
    if not priced or isinstance(money, int | float):
        return counted, float(money) if isinstance(money, int | float) else 0.0
    effect = effect_of(event) or {}
    model = str(told.get("model") or effect.get("model") or event.model_version or "")
    if not model or event.usage is None:
        return counted, 0.0
    return counted, _priced(model, event.usage, 0, "")


def tokens_of(usage: Usage | None) -> int | None:
    """The tokens of a request and its answer, as the provider counted them."""
    if usage is None:
        return None
    parts = (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count)
    return usage.total_token_count or sum(part or 0 for part in parts) or None


def estimated(compiled: Compiled, response: ModelResponse) -> int:
    """The tokens of a request and its answer where the provider reports none."""
    return compiled.tokens + answer_tokens(response, compiled.scale.counter)


def answer_tokens(response: ModelResponse, counter: Counter) -> int:
    """The tokens of what a model said and called."""
    said = response.content
    texts = [] if said is None else [part.text or "" for part in said.parts or ()]
    if said is not None:
        calls = (part.function_call for part in said.parts or ())
        texts += [f"{call.name}{compact(call.args or {})}" for call in calls if call is not None]
    return sum(map(counter.count, texts))


def money_for(model: str, response: ModelResponse, compiled: Compiled, tokens: int) -> float:
    """What an answer cost in US dollars; what was read from a cache at its own price."""
    usage = response.usage
    if usage is None or usage.prompt_token_count is None:
        asked = compiled.tokens
        usage = Usage(prompt_token_count=asked, candidates_token_count=max(0, tokens - asked))
    held = (response.custom_metadata or {}).get("weft")
    written = held.get("cacheWrite") if isinstance(held, dict) else None
    wrote = written if isinstance(written, int) else 0
    return _priced(model, usage, wrote, compiled.prompt.cache)


def _priced(model: str, usage: Usage, written: int, kept: str) -> float:
    from weft.compiler.costs import Load, rates_for

    asked = usage.prompt_token_count or 0
    cached = min(usage.cached_content_token_count or 0, asked)
    answer = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    rates = rates_for(model, tokens=asked, kept=kept)
    if not rates.money or is_free(model):
        return 0.0
    return rates.cost(Load(cached, written, max(0, asked - cached - written), answer))
