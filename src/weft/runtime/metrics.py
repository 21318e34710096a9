"""Numbers of a server or a worker in Prometheus' text format."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from weft.session import Event, Usage

_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""The upper bounds of the buckets for how long runs take."""

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

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
        usage: Usage | None = None,
        events: Sequence[Event] = (),
    ) -> None:
        """Count a run that is over, and what it cost; without `usage` nobody knows that."""
        runs = self._runs.get(app)
        if runs is None:
            runs = self._runs[app] = _AppRuns()
        runs.outcomes[outcome] = runs.outcomes.get(outcome, 0) + 1
        runs.durations[bisect_left(_SECONDS, seconds)] += 1
        runs.seconds += seconds
        if usage is None:
            return
        runs.is_counted = True
        runs.add_tokens(usage)
        for event in events:
            runs.answers += event.usage is not None
            for part in (event.content.parts or ()) if event.content is not None else ():
                runs.results += part.function_response is not None

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
        for kind, numbers in (("gauge", self._gauges), ("counter", counts)):
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

    __slots__ = (
        "answers", "durations", "is_counted", "outcomes", "results", "seconds", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.durations = [0] * (len(_SECONDS) + 1)
        self.seconds = 0.0
        self.tokens: dict[str, int] = {}
        self.answers = self.results = 0
        self.is_counted = False
        """Whether it is known of a run what it cost."""

    def add_tokens(self, usage: Usage) -> None:
        """Add what the answers of a run cost."""
        for kind, tokens in (
            ("prompt", usage.prompt_token_count),
            ("cached", usage.cached_content_token_count),
            ("output", usage.candidates_token_count),
            ("thoughts", usage.thoughts_token_count),
        ):
            if tokens:
                self.tokens[kind] = self.tokens.get(kind, 0) + tokens

    def counts(self, own: tuple[str, str]) -> Iterator[tuple[str, _Labels, float]]:
        """Their counters, with labels."""
        for outcome, number in self.outcomes.items():
            yield "weft_runs_total", (own, ("outcome", outcome)), number
        for kind, tokens in self.tokens.items():
            yield "weft_tokens_total", (own, ("kind", kind)), tokens
        if self.is_counted:
            yield "weft_model_answers_total", (own,), self.answers
            yield "weft_tool_results_total", (own,), self.results


def _braces(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
