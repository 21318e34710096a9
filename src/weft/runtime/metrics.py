"""Numbers of a server or a worker in Prometheus' text format.

Top to bottom: the numbers, the runs of an app, what an agent did with a model, which model that is.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from weft.compiler.plan import ModelLike, default_model
from weft.declare import Agent, Flow, Node, RunConfig
from weft.declare.agent import nodes_below
from weft.runtime.costs import model_of, money_of, usage_of
from weft.runtime.place import UNKNOWN_OUTCOME
from weft.session import Event, Usage

_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""The upper bounds of the buckets for how long runs take."""

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_WAITING = ("waiting", "needs_person")
"""Outcomes of a run that somebody is asked something by."""

_STOPPED = ("cancelled", "interrupted")
"""Codes of events that end a run because somebody wanted that."""

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms of one application; they only grow, and end with it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[_Labels, float]] = {}
        self._requests: dict[tuple[str, str, int], int] = {}
        """Answers by method, path and status."""
        self._gauges: dict[str, dict[_Labels, float]] = {}
        self._runs: dict[str, _AppRuns] = {}
        """The runs of each app; their labels are made when the numbers are read."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._add(name, tuple(labels.items()), amount)

    def count_request(self, method: str, path: str, status: int) -> None:
        """Count an answer to a request; its labels are made when the numbers are read."""
        kind = (method, path, status)
        self._requests[kind] = self._requests.get(kind, 0) + 1

    def _add(self, name: str, key: _Labels, amount: float) -> None:
        series = self._counts.get(name)
        if series is None:
            series = self._counts[name] = {}
        series[key] = series.get(key, 0) + amount

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a number that goes up and down."""
        self._gauges.setdefault(name, {})[tuple(labels.items())] = value

    def note_run(
        self,
        app: str,
        seconds: float,
        outcome: str,
        events: Sequence[Event] | None = None,
        models: Mapping[str, str] = {},
    ) -> None:
        """Count a run that is over, and what it cost; without `events` nobody knows that.

        `models` says which model an agent asks, for answers that do not.
        """
        runs = self._runs.get(app)
        if runs is None:
            runs = self._runs[app] = _AppRuns()
        runs.outcomes[outcome] = runs.outcomes.get(outcome, 0) + 1
        runs.durations[bisect_left(_SECONDS, seconds)] += 1
        runs.seconds += seconds
        if events is not None:
            runs.note_events(events, models, waits=outcome in _WAITING)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with the numbers that are read now."""
        lines: list[str] = []
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {_number(value)}"]
        requests: dict[_Labels, float] = {
            (("method", method), ("path", path), ("status", str(status))): count
            for (method, path, status), count in self._requests.items()
        }
        counts = {**self._counts}
        for app, runs in self._runs.items():
            for name, labels, number in runs.counts(("app", app)):
                counts[name] = {**counts.get(name, {}), labels: number}
        if requests:
            counts["weft_http_requests_total"] = requests
        gauged = {**self._gauges}
        for app, runs in self._runs.items():
            for labels, share in runs.shares(("app", app)):
                gauged["weft_cached_share"] = {**gauged.get("weft_cached_share", {}), labels: share}
        for kind, numbers in (("gauge", gauged), ("counter", counts)):
            for name, series in sorted(numbers.items()):
                lines.append(f"# TYPE {name} {kind}")
                lines += [f"{name}{_braces(labels)} {_number(n)}" for labels, n in series.items()]
        if self._runs:
            lines.append("# TYPE weft_run_seconds histogram")
        for app, runs in self._runs.items():
            total = 0
            for bound, n in zip((*_SECONDS, None), runs.durations, strict=True):
                total += n
                edge = "+Inf" if bound is None else f"{bound:g}"
                both = _braces((("app", app), ("le", edge)))
                lines.append(f"weft_run_seconds_bucket{both} {total}")
            only = _braces((("app", app),))
            lines.append(f"weft_run_seconds_sum{only} {_number(runs.seconds)}")
            lines.append(f"weft_run_seconds_count{only} {total}")
        return "\n".join([*lines, ""])


class _AppRuns:
    """The runs of one app that are over."""

    __slots__ = ("agents", "durations", "is_counted", "outcomes", "results", "seconds")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.durations = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0
        self.results = 0
        self.is_counted = False
        """Whether it is known of a run what it did."""
        self.agents: dict[tuple[str, str], _AgentUse] = {}
        """By agent and model."""

    def note_events(
        self, events: Sequence[Event], models: Mapping[str, str], *, waits: bool
    ) -> None:
        """Add what the events of a run say: answers and their cost, results, failures."""
        self.is_counted = True
        took_part: dict[int, _AgentUse] = {}
        last = ""
        for event in events:
            for part in (event.content.parts or ()) if event.content is not None else ():
                self.results += part.function_response is not None
            if event.author == "user":
                continue
            last = event.author
            # most events without usage carry no notes either
            is_noted = event.usage is not None or event.is_noted
            used = usage_of(event) if is_noted else None
            if used is None and not event.error_code:
                continue
            use = self._use_of(event, models)
            took_part[id(use)] = use
            if used is not None:
                use.add_answer(event, used)
            if event.error_code and event.error_code not in _STOPPED:
                use.failures[event.error_code] = use.failures.get(event.error_code, 0) + 1
        for use in took_part.values():
            use.runs += 1
        if waits and last:
            self._use(last, models.get(last, "")).waits += 1

    def _use_of(self, event: Event, models: Mapping[str, str]) -> "_AgentUse":
        model = models.get(event.author, "")
        # another model may have answered in place of the one that the agent asks
        if not model or event.provenance.fallback or event.provenance.effect:
            model = model_of(event) or model
        return self._use(event.author, model)

    def _use(self, agent: str, model: str) -> "_AgentUse":
        use = self.agents.get((agent, model))
        if use is None:
            use = self.agents[agent, model] = _AgentUse(model)
        return use

    def counts(self, own: tuple[str, str]) -> Iterator[tuple[str, _Labels, float]]:
        """Their counters, with labels."""
        for outcome, number in self.outcomes.items():
            yield "weft_runs_total", (own, ("outcome", outcome)), number
        if self.is_counted:
            yield "weft_tool_results_total", (own,), self.results
        for (agent, model), use in self.agents.items():
            yield from use.counts((own, ("agent", agent), ("model", model)))

    def shares(self, own: tuple[str, str]) -> Iterator[tuple[_Labels, float]]:
        """How much of what each agent sent its provider had read before."""
        for (agent, model), use in self.agents.items():
            if asked := use.tokens.get("prompt"):
                share = use.tokens.get("cached", 0) / asked
                yield (own, ("agent", agent), ("model", model)), round(share, 4)


class _AgentUse:
    """What one agent did with one model."""

    __slots__ = ("answers", "failures", "model", "money", "runs", "tokens", "waits")

    def __init__(self, model: str) -> None:
        self.model = model
        self.tokens: dict[str, int] = {}
        self.money = 0.0
        self.answers = self.runs = self.waits = 0
        self.failures: dict[str, int] = {}

    def add_answer(self, event: Event, usage: Usage) -> None:
        """Add an answer, and what it cost."""
        self.answers += 1
        for kind, tokens in (
            ("prompt", usage.prompt_token_count),
            ("cached", usage.cached_content_token_count),
            ("output", usage.candidates_token_count),
            ("thoughts", usage.thoughts_token_count),
        ):
            if tokens:
                self.tokens[kind] = self.tokens.get(kind, 0) + tokens
        self.money += money_of(event, self.model)

    def counts(self, own: _Labels) -> Iterator[tuple[str, _Labels, float]]:
        """Its counters, with labels."""
        yield "weft_agent_runs_total", own, self.runs
        yield "weft_agent_waits_total", own, self.waits
        yield "weft_model_answers_total", own, self.answers
        yield "weft_cost_dollars_total", own, self.money
        for code, number in self.failures.items():
            yield "weft_agent_failures_total", (*own, ("code", code)), number
        for kind, tokens in self.tokens.items():
            yield "weft_tokens_total", (*own, ("kind", kind)), tokens


def end_of_wait(events: Sequence[Event]) -> str:
    """The word for a run that waits: for an answer, or for a person to say what a call did."""
    is_open = bool(events) and events[-1].error_code == UNKNOWN_OUTCOME
    return "needs_person" if is_open else "waiting"


def model_names(root: Node, config: RunConfig) -> dict[str, str]:
    """The model that each agent of a program asks, by the agent's name."""
    names: dict[str, str] = {}
    waiting: list[tuple[Node, object]] = [(root, config.model)]
    seen: set[int] = set()
    while waiting:
        node, above = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Agent):
            # the run's model first, then the agent's, then that of an agent above
            above = config.model or node.model or above
            name = above.name if isinstance(above, ModelLike) else str(above or default_model())
            names.setdefault(node.name, name)
            inner = (one.agent for one in node.tools)
            waiting += [(one, above) for one in inner if isinstance(one, Agent | Flow)]
        waiting += [(one, above) for one in nodes_below(node)]
    return names


def _braces(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escape(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
