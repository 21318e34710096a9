"""Every option of every command, declared once: its flag, type, help and default.

A command lists which of them it takes (`commands.py`) and gets them as one `CommandOptions`.
Nothing heavy is imported here, so that `weft --help` is there at once.
"""

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from weft.errors import UsageError

DEFAULT_STORE = "sqlite:///weft.db"
"""Where sessions are kept unless told otherwise: a file in the working folder."""

_STORE_HELP = (
    "sqlite:///FILE, postgresql://... or memory://; env:NAME reads it from a variable, where no"
    " other process sees its password."
)

Texts = list[str] | None
"""The values of an option that may be given several times."""


class ReportForm(StrEnum):
    """The forms of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class LogForm(StrEnum):
    """The forms of what a process logs."""

    TEXT = "text"
    JSON = "json"


class PictureForm(StrEnum):
    """The forms of a picture."""

    SVG = "svg"
    MERMAID = "mermaid"
    TEXT = "text"


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """What a command was given. What it does not take has its default.

    An option is called as its field, unless it says otherwise: `only_user` is `--user`.

    Fields without a default are required by the commands that take them.
    """

    # what it is about
    target: Annotated[
        str, Argument(help="pkg.module:object or path/to/file.py:object", show_default=False)
    ]
    id: Annotated[str, Argument(help="The session's id.", show_default=False)]
    targets: Annotated[
        list[str], Argument(help="pkg.module:object; one or several", show_default=False)
    ]
    listed: Annotated[
        list[str] | None,
        Argument(
            help="pkg.module:object, or recordings", metavar="TARGETS|FILES", show_default=False
        ),
    ] = None
    name: Annotated[str | None, Argument(help="The weights' name.")] = None
    code: Annotated[str | None, Argument(help="A code such as WEFT101.", show_default=False)] = None
    folder: Annotated[
        Path, Argument(help="Where to; the working folder if left out.", metavar="FOLDER")
    ] = Path()
    file: Annotated[Path | None, Argument(help="A file of cases.", metavar="FILE")] = None
    files: Annotated[
        list[Path] | None,
        Argument(help="Recordings: files, folders or globs; .gz too.", metavar="FILES"),
    ] = None
    recorded_format: Annotated[
        str | None,
        Option("--format", help="Their format, if its shape does not tell.", metavar="NAME"),
    ] = None
    lenient: Annotated[
        bool,
        Option("--lenient", help="Read on where a call, a result, media or words would be lost."),
    ] = False
    recorded_target: Annotated[
        str | None,
        Option("--target", help="The agents that were recorded.", metavar="MODULE:OBJECT"),
    ] = None
    limit: Annotated[int | None, Option(help="At most this many.", min=1)] = None
    gap: Annotated[
        float | None,
        Option(
            help="Seconds between an answer and the next request, where no times are recorded.",
            min=0,
        ),
    ] = None
    sessions_per_hour: Annotated[
        float,
        Option(
            help="How many sessions begin an hour, which read the head of a request together.",
            min=0,
        ),
    ] = 0.0
    rivals: Annotated[
        bool,
        Option("--rivals", help="Rows more: clear, cap, mask, window and summary, as others do."),
    ] = False
    oracle: Annotated[
        bool, Option("--oracle", help="One row more: results that say only what was used later.")
    ] = False

    # what is said, in which session
    message: Annotated[
        str | None, Option("-m", "--message", help="What the user says now.", metavar="TEXT")
    ] = None
    state: Annotated[
        Texts, Option(help="A state value; JSON where it is JSON, else text.", metavar="K=V")
    ] = None
    session: Annotated[str | None, Option(help="The session's id.", metavar="ID")] = None
    trusted: Annotated[
        bool, Option("--trusted", help="The session file is Weft's own: believe what it kept.")
    ] = False
    store: Annotated[str | None, Option(help=_STORE_HELP, metavar="ADDRESS")] = None
    user: Annotated[str, Option(help="Whose session it is.", metavar="ID")] = "user"
    only_user: Annotated[
        str | None, Option("--user", help="Only this user's sessions.", metavar="ID")
    ] = None
    app: Annotated[
        str | None, Option(help="The app; that of the target if left out.", metavar="NAME")
    ] = None
    step: Annotated[
        int | None,
        Option(help="The request that led to the session's N-th model event.", metavar="N"),
    ] = None
    steps: Annotated[
        list[int] | None,
        Option("--step", help="The session's N-th model event; twice for two.", metavar="N"),
    ] = None
    before: Annotated[
        str | None, Option(help="Take back this invocation and all after it.", metavar="ID")
    ] = None
    last: Annotated[bool, Option("--last", help="Take back the last one.")] = False

    # how it is compiled
    agent: Annotated[
        str | None, Option(help="Another agent of the tree or flow.", metavar="NAME")
    ] = None
    dialect: Annotated[str | None, Option(help="Speak another dialect.", metavar="NAME")] = None
    model: Annotated[str | None, Option(help="Ask another model.", metavar="NAME")] = None
    models: Annotated[
        Texts, Option("--model", help="Prices and cache rules to use; several.", metavar="NAME")
    ] = None
    policies: Annotated[
        Texts, Option("--policy", help='As in code: "C.window(5)"; several.', metavar="POLICY")
    ] = None
    generation: Annotated[
        Texts,
        Option("--option", help="A generation option, such as temperature=0.3.", metavar="K=V"),
    ] = None
    strict: Annotated[bool, Option("--strict", help="Missing variables and losses are errors.")] = (
        False
    )

    # how it runs
    max_llm_calls: Annotated[
        int | None, Option(help="How often models may be asked.", metavar="N")
    ] = None
    budget_tokens: Annotated[
        int | None, Option(help="Stop when this many tokens are spent.", metavar="N")
    ] = None
    budget_seconds: Annotated[
        float | None, Option(help="Stop after this many seconds.", metavar="S")
    ] = None
    budget_money: Annotated[
        float | None, Option(help="Stop when this many US dollars are spent.", metavar="USD")
    ] = None
    resume: Annotated[bool, Option("--resume", help="Go on where the session stopped.")] = False
    answers: Annotated[
        Texts, Option("--answer", help="Answer an open call, by id or name.", metavar="ID=VALUE")
    ] = None
    retries: Annotated[
        Texts, Option("--retry", help="Run a call again that may have run.", metavar="ID")
    ] = None

    # how it is served
    host: Annotated[str, Option(help="The address to listen on.", metavar="ADDRESS")] = "127.0.0.1"
    port: Annotated[int, Option(help="The port; 0 for a free one.", min=0)] = 8000
    tokens: Annotated[
        str | None, Option(help="Users and their tokens: FILE or env:NAME.", metavar="SOURCE")
    ] = None
    auth: Annotated[
        str | None, Option(help="A function from a request to its user.", metavar="MODULE:FUNCTION")
    ] = None
    listen: Annotated[
        bool,
        Option("--listen", help="Show what arrives: spans by OTLP/HTTP, requests to providers."),
    ] = False
    allow_host: Annotated[Texts, Option(help="Another name to answer to.", metavar="NAME")] = None
    grace: Annotated[
        float, Option(help="Seconds that runs may go on when it stops.", metavar="S")
    ] = 10.0

    # how much of it there is
    turns_per_minute: Annotated[
        int | None, Option(help="Turns a user begins in a minute.", metavar="N", min=1)
    ] = None
    open_runs: Annotated[
        int | None, Option(help="Runs a user has open at once.", metavar="N", min=1)
    ] = None
    tokens_per_day: Annotated[
        int | None, Option(help="Tokens a user has in a day of UTC.", metavar="N", min=1)
    ] = None
    app_turns_per_minute: Annotated[
        int | None, Option(help="The same of an app, for all its users.", metavar="N", min=1)
    ] = None
    app_open_runs: Annotated[
        int | None, Option(help="The same of an app, for all its users.", metavar="N", min=1)
    ] = None
    app_tokens_per_day: Annotated[
        int | None, Option(help="The same of an app, for all its users.", metavar="N", min=1)
    ] = None
    max_runs: Annotated[
        int | None,
        Option(
            help="Refuse runs with 503 while this many are under way; 1000 if left out.",
            metavar="N",
            min=1,
        ),
    ] = None
    max_waiting: Annotated[
        int | None,
        Option(
            help="Refuse runs with 503 while this many turns wait in the queue; 10000 if left out.",
            metavar="N",
            min=1,
        ),
    ] = None

    # how turns are queued and run
    turn: Annotated[str, Argument(help="The turn's id.", show_default=False)] = ""
    engine: Annotated[
        str, Option(help="The queue: inbox, procrastinate or dbos.", metavar="NAME")
    ] = "inbox"
    slots: Annotated[int, Option(help="How many turns run at once.", min=1)] = 16
    attempts: Annotated[int, Option(help="How often a turn that fails is run.", min=1)] = 6
    hung: Annotated[
        float,
        Option(help="Seconds of silence until a living worker is cut off.", metavar="SECONDS"),
    ] = 15.0
    keep: Annotated[
        float, Option(help="Days for which done turns are kept.", min=0, metavar="DAYS")
    ] = 7.0
    health_port: Annotated[
        int | None,
        Option(
            "--port", help="Answer /health, /ready and /metrics here; 0 for a free port.", min=0
        ),
    ] = None
    stuck: Annotated[
        float,
        Option(
            help="Seconds that a tool may block the worker until /health is 503.",
            metavar="SECONDS",
            min=1,
        ),
    ] = 600.0
    telemetry: Annotated[
        bool,
        Option(
            "--telemetry",
            help="Send spans and metrics with OpenTelemetry, to OTEL_EXPORTER_OTLP_ENDPOINT.",
        ),
    ] = False
    mcp: Annotated[bool, Option("--mcp", help="Answer MCP clients at /mcp.")] = False
    a2a: Annotated[bool, Option("--a2a", help="Answer other agents at /a2a/APP.")] = False
    metrics_port: Annotated[
        int | None,
        Option(
            help="Answer /metrics, /health and /ready here without a token; 0 for a free port.",
            metavar="PORT",
            min=0,
        ),
    ] = None
    metrics_host: Annotated[
        str, Option(help="The address that --metrics-port is on.", metavar="HOST")
    ] = "127.0.0.1"
    log_form: Annotated[
        LogForm, Option("--log-format", help="How stderr is written: text, or a JSON a line.")
    ] = LogForm.TEXT
    workers: Annotated[
        int, Option(help="Run turns in this many processes of this machine.", min=0)
    ] = 0
    queue: Annotated[
        bool, Option("--queue", help="Only put turns and follow them: workers run them.")
    ] = False
    turn_status: Annotated[
        str | None,
        Option(
            "--status",
            help="Only these: waiting, running, done, failed or cancelled.",
            metavar="NAME",
        ),
    ] = None

    # how it is checked
    inputs: Annotated[
        Texts,
        Option("--input", help="A state key that is there at the start.", metavar="KEY[=TYPE]"),
    ] = None
    explain: Annotated[bool, Option("--explain", help="Also say what each agent will see.")] = False
    fix: Annotated[bool, Option("--fix", help="Mend what is only misspelt, and check again.")] = (
        False
    )
    watch: Annotated[bool, Option("--watch", help="Check again whenever a file changes.")] = False
    allow: Annotated[Texts, Option(help="A code to leave out.", metavar="CODE")] = None
    infer: Annotated[bool, Option("--infer/--no-infer", help="Whether keys are inferred.")] = True

    # how it is evaluated
    cases: Annotated[
        Path | None,
        Argument(
            help="A dataset as YAML or JSON, or google-adk's *.evalset.json.", metavar="CASES"
        ),
    ] = None
    repeat: Annotated[int, Option(help="Run every case so often.", min=1)] = 1
    parallel: Annotated[int, Option(help="How many cases run at once.", metavar="N", min=1)] = 1
    baseline: Annotated[
        Path | None, Option(help="Compare with outcomes that were saved.", metavar="FILE")
    ] = None
    save: Annotated[
        Path | None, Option(help="Keep the outcomes, as a baseline.", metavar="FILE")
    ] = None
    tolerance: Annotated[
        float, Option(help="The share of runs that may be lost.", metavar="SHARE", min=0, max=1)
    ] = 0.0

    # how it is loaded
    load_target: Annotated[
        str | None,
        Argument(
            help="The address of a server, or module:object; left out, a scripted agent.",
            metavar="TARGET",
            show_default=False,
        ),
    ] = None
    sessions: Annotated[int, Option(help="How many sessions.", metavar="N")] = 20
    turns: Annotated[int, Option(help="Turns of each session.", metavar="N")] = 5
    rate: Annotated[
        float | None,
        Option(help="Turns that arrive a second; else as they are answered.", metavar="N"),
    ] = None
    latency: Annotated[
        float, Option(help="Seconds a call of the scripted model takes.", metavar="S")
    ] = 0.02
    load_engine: Annotated[
        str, Option("--engine", help="Who carries turns to workers.", metavar="NAME")
    ] = "serve"
    load_workers: Annotated[
        int, Option("--workers", help="Worker processes to start; 0: this process.", metavar="N")
    ] = 0
    load_slots: Annotated[
        int, Option("--slots", help="Turns that a worker of a queue runs at once.", metavar="N")
    ] = 8
    chaos: Annotated[
        str | None, Option(help="Faults to make: kill, stop, restart, hang.", metavar="KIND,...")
    ] = None
    faults: Annotated[int, Option(help="How many of each kind.", metavar="N")] = 3
    stop_seconds: Annotated[float, Option(help="How long a worker is stopped.", metavar="S")] = 15.0
    silence: Annotated[
        float, Option(help="Seconds until a stopped worker counts as dead.", metavar="S")
    ] = 4.0
    patience: Annotated[
        float, Option(help="Seconds without an answer until it gives up.", metavar="S")
    ] = 120.0
    seed: Annotated[int, Option(help="Which workers are hit.", metavar="N")] = 0
    plot: Annotated[Path | None, Option(help="Draw the run as SVG.", metavar="FILE")] = None

    # how it is printed
    report_form: Annotated[ReportForm, Option("--format", help="The form of the report.")] = (
        ReportForm.TEXT
    )
    picture_form: Annotated[
        PictureForm | None,
        Option("--format", help="The form; by default that of the file, else text."),
    ] = None
    as_json: Annotated[bool, Option("--json", help="The list as JSON.")] = False
    older_than: Annotated[
        str | None, Option(help="Unchanged for this long: 90d, 12h or 30m.", metavar="TIME")
    ] = None
    keep_recent: Annotated[
        int, Option(help="Leave the newest N events of a session.", metavar="N")
    ] = 1_000
    yes: Annotated[bool, Option("--yes", help="Do it; without it, only say what.")] = False
    html: Annotated[Path | None, Option(help="Write the report as a page.", metavar="FILE")] = None
    raw: Annotated[
        bool, Option("--raw", help="With --html: keep what the agents redact or withhold.")
    ] = False
    redact: Annotated[
        Texts,
        Option(
            help="Hide these too, as a policy names them: email,card. Or a regular expression.",
            metavar="NAMES",
        ),
    ] = None

    # what goes through a proxy
    upstream: Annotated[
        Texts, Option(help="Where a provider is: anthropic=URL.", metavar="NAME=URL")
    ] = None
    record: Annotated[
        Path | None, Option(help="Keep what is said, a file a session.", metavar="DIR")
    ] = None
    cache: Annotated[
        bool,
        Option("--cache", help="Ask Anthropic to keep what it reads, where a client asks nothing."),
    ] = False
    no_record: Annotated[
        bool, Option("--no-record", help="Keep nothing but recalls and bills, not even in memory.")
    ] = False
    spend: Annotated[
        Texts,
        Option(
            "--limit",
            help="Refuse more once this is spent: 5USD/day, 2USD/session.",
            metavar="LIMIT",
        ),
    ] = None
    report: Annotated[
        bool,
        Option("--report", help="Print requests that a provider refused as they went, masked."),
    ] = False
    config: Annotated[
        Path | None, Option(help="A file with [proxy]; weft.toml if it is there.", metavar="FILE")
    ] = None

    frontier: Annotated[
        Path | None,
        Option(
            help="Draw cost against what is in view as SVG, with an oracle that knows the future.",
            metavar="FILE",
        ),
    ] = None
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write it to a file.", metavar="FILE")
    ] = None
    everything: Annotated[bool, Option("--all", help="Show every row of a long history.")] = False
    count: Annotated[
        bool, Option("--count", help="Ask the provider to count it too; needs a key.")
    ] = False
    exit_code: Annotated[bool, Option("--exit-code", help="Exit with 1 where the two differ.")] = (
        False
    )
    verbose: Annotated[
        bool, Option("-v", "--verbose", help="Show calls and results on stderr.")
    ] = False

    @property
    def address(self) -> str:
        """The store that is named, or the usual one."""
        return self.store or DEFAULT_STORE

    @property
    def goes_on(self) -> bool:
        """Whether a run goes on that stopped, instead of a new one."""
        return self.resume or bool(self.answers) or bool(self.retries)


def read_address(store: str) -> str:
    """The address of a store, from a variable where `env:NAME` stands for it.

    An address may hold a password, and a list of processes shows their arguments.
    """
    if not store.startswith("env:"):
        return store
    name = store.removeprefix("env:")
    address = os.environ.get(name, "").strip()
    if not address:
        raise UsageError(
            f"the variable {name} is not set",
            where="--store",
            hint="set it to the address of a store: sqlite:///FILE, postgresql://...",
        )
    return address
