"""Numbers of a server or a worker in Prometheus' text format."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from weft.session import Event, Usage

_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)
"""The upper bounds of the buckets for how long runs take."""

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Labels = tuple[tuple[str, str], ...]

_PROMPT, _CACHED, _OUTPUT, _THOUGHTS = (
    ("kind", kind) for kind in ("prompt", "cached", "output", "thoughts")
)


class Metrics:
    """Counters and histograms of one application; they only grow, and end with it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[_Labels, float]] = {}
        self._requests: dict[tuple[str, str, int], int] = {}
        """Answers by method, path and status."""
        self._gauges: dict[str, dict[_Labels, float]] = {}
        self._durations: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

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
        self._add("weft_runs_total", (("app", app), ("outcome", outcome)), 1)
        buckets = self._durations.get(app)
        if buckets is None:
            buckets = self._durations[app] = [0] * (len(_SECONDS) + 1)
        buckets[bisect_left(_SECONDS, seconds)] += 1
        self._sums[app] = self._sums.get(app, 0.0) + seconds
        if usage is None:
            return
        own = ("app", app)
        for kind, tokens in (
            (_PROMPT, usage.prompt_token_count),
            (_CACHED, usage.cached_content_token_count),
            (_OUTPUT, usage.candidates_token_count),
            (_THOUGHTS, usage.thoughts_token_count),
        ):
            if tokens:
                self._add("weft_tokens_total", (own, kind), tokens)
        calls = results = 0
        for event in events:
            calls += event.usage is not None
            results += len(event.results)
        self._add("weft_model_answers_total", (own,), calls)
        self._add("weft_tool_results_total", (own,), results)

    def text(self, gauges: Mapping[str, float]) -> str:
        """All of it, with the numbers that are read now."""
        lines: list[str] = []
        for name, value in gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {_number(value)}"]
        requests: dict[_Labels, float] = {
            (("method", method), ("path", path), ("status", str(status))): count
            for (method, path, status), count in self._requests.items()
        }
        counts = (
            {**self._counts, "weft_http_requests_total": requests} if requests else self._counts
        )
        for kind, numbers in (("gauge", self._gauges), ("counter", counts)):
            for name, series in sorted(numbers.items()):
                lines.append(f"# TYPE {name} {kind}")
                lines += [f"{name}{_braces(labels)} {_number(n)}" for labels, n in series.items()]
        if self._durations:
            lines.append("# TYPE weft_run_seconds histogram")
        for app, buckets in self._durations.items():
            total = 0
            for bound, n in zip((*_SECONDS, None), buckets, strict=True):
                total += n
                edge = "+Inf" if bound is None else f"{bound:g}"
                labels = _braces((("app", app), ("le", edge)))
                lines.append(f"weft_run_seconds_bucket{labels} {total}")
            only = _braces((("app", app),))
            lines.append(f"weft_run_seconds_sum{only} {_number(self._sums[app])}")
            lines.append(f"weft_run_seconds_count{only} {total}")
        return "\n".join([*lines, ""])


def _braces(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
