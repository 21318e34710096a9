"""The commands: what each is called, which options it takes, and where its code is.

The code is loaded when the command runs. To add a command, write its file and a row here.
"""

import copy
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import MISSING, dataclass, fields
from pkgutil import resolve_name
from typing import Annotated, TypeAlias, get_args, get_type_hints

from typer import Argument, Option, Typer
from typer.models import ParameterInfo

from weft.cli.options import DEFAULT_STORE, CommandOptions, read_address

_USUAL = object()

CommandFunction: TypeAlias = Callable[[CommandOptions], int | Coroutine[object, object, int]]


@dataclass(frozen=True)
class Take:
    """An option as one command takes it, where that differs from the usual."""

    name: str
    help: str | None = None
    metavar: str | None = None
    default: object = _USUAL
    required: bool = False
    spelling: ParameterInfo | None = None
    """Another flag, or an argument by its place."""


@dataclass(frozen=True)
class Command:
    """A row: `code` is a function from `CommandOptions` to the exit code, as module:function.

    A coroutine function has an event loop of its own.
    """

    name: str
    code: str
    takes: tuple[str | Take, ...]
    """The options by their names, or as this command takes them."""
    about: str

    def run(self, options: CommandOptions) -> int:
        """Load the code and run it."""
        function: CommandFunction = resolve_name(f"weft.cli.{self.code}")
        outcome = function(options)
        if isinstance(outcome, int):
            return outcome
        import asyncio  # `weft --help` needs none

        return asyncio.run(outcome)

    def add_to(self, app: Typer) -> None:
        """Make it a command of a program."""
        app.command(self.name)(function_of(self.takes, self.run, about=self.about))


@dataclass(frozen=True)
class CommandGroup:
    """Commands below one word."""

    name: str
    commands: tuple[Command, ...]
    about: str

    def add_to(self, app: Typer) -> None:
        """Make it a command of a program, with its own below it."""
        group = Typer(
            name=self.name,
            help=self.about,
            rich_markup_mode=None,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        for command in self.commands:
            command.add_to(group)
        app.add_typer(group)


_SESSION_FILE = Take(
    "session", "A session as ADK's JSON; with --store, the id of a stored one.", "FILE|ID"
)


_ONLY_APP = Take("app", "Only this app's sessions.")


_EXISTING_STORE = Take("store", "sqlite:///FILE or postgresql://...", default=DEFAULT_STORE)


_REQUEST = (
    "target message state",
    _SESSION_FILE,
    "store trusted app only_user agent dialect model generation strict",
)
"""What a request is compiled from."""


COMMANDS: tuple[Command | CommandGroup, ...] = (
    Command(
        "init",
        "help:init_command",
        ("folder",),
        "Write a first flow and its test: desk.py and test_desk.py. Files that are there stay.",
    ),
    Command(
        "run",
        "run:run_command",
        (
            "target",
            Take("message", spelling=Argument(help="What the user says.", show_default=False)),
            "session store user app state model",
            Take("as_json", "Events as ADK's JSON, one a line."),
            "max_llm_calls budget_tokens budget_seconds budget_money strict resume answers",
            "retries verbose",
        ),
        "Ask one question; the answer streams to stdout.",
    ),
    Command(
        "chat",
        "chat:chat_command",
        (
            "target session",
            Take("store", default=DEFAULT_STORE),
            "user app state model max_llm_calls strict",
        ),
        "Talk in the terminal; the conversation is kept.",
    ),
    Command(
        "serve",
        "serve:serve_command",
        (
            "targets",
            Take("store", default=DEFAULT_STORE),
            "host port tokens auth allow_host mcp a2a telemetry grace workers queue engine",
            Take("slots", "How many turns each of the --workers runs at once."),
            "turns_per_minute open_runs tokens_per_day app_turns_per_minute app_open_runs",
            "app_tokens_per_day max_runs max_waiting metrics_port metrics_host log_form model",
            "max_llm_calls",
        ),
        """Serve agents over HTTP: an API, streams, and the APIs that other clients speak.

        It listens on this machine only and prints an address with a token. To listen elsewhere,
        say who may ask: --tokens or --auth. With --workers, turns run in other processes, which
        are started again when they die; with --queue, in those of `weft worker`, anywhere.
        """,
    ),
    Command(
        "proxy",
        "proxy:proxy_command",
        (
            Take("listed", "A command to run with it, or `receipt`.", "[-- COMMAND]"),
            Take("store", default="sqlite:///weft-proxy.db"),
            Take("policies", "As in code, of all requests, or MODEL=POLICY, or /PATH=POLICY."),
            "upstream config host",
            Take("port", default=8787),
            "tokens allow_host",
            Take("strict", "A fault of ours is an error; else the request goes as it came."),
            "cache record no_record spend redact report",
            Take("session", "With `receipt`: only this one."),
            Take("as_json", "With `receipt`: for machines."),
            "log_form",
        ),
        """Pass requests of any agent on to its provider, made cheaper, and answers back.

        Point a client's base URL here, or have it start a command: weft proxy -- python agent.py.
        `weft proxy receipt` says what was promised and what was billed.
        """,
    ),
    Command(
        "mcp",
        "serve:mcp_command",
        ("targets", Take("store", default=DEFAULT_STORE), "model max_llm_calls"),
        """Serve agents to an MCP client on stdin and stdout, with their sessions and the compiler.

        Name it in the client's settings: {"command": "weft", "args": ["mcp", "pkg.module:agent"]}.
        """,
    ),
    Command(
        "acp",
        "serve:acp_command",
        ("target", Take("store", default=DEFAULT_STORE), "model max_llm_calls"),
        """Serve an agent to an editor that speaks ACP, on stdin and stdout.

        Name it in the editor's settings: {"command": "weft", "args": ["acp", "pkg.module:agent"]}.
        """,
    ),
    Command(
        "worker",
        "serve:worker_command",
        (
            "targets",
            Take("store", default=DEFAULT_STORE),
            "slots engine",
            Take("grace", "Seconds that turns may go on when it stops.", default=30.0),
            "attempts hung keep host health_port stuck telemetry log_form model max_llm_calls",
        ),
        """Take turns of agents from the queue of a store, next to any number of other workers.

        Kill it, and others go on with its turns after about a second. On SIGTERM it ends those
        that it runs, or leaves them to others when --grace is over.
        """,
    ),
    CommandGroup(
        "turns",
        (
            Command(
                "list",
                "turns:list_command",
                (_EXISTING_STORE, "engine", _ONLY_APP, "turn_status limit as_json"),
                "List the turns of a queue: what waits, what runs, what failed and why.",
            ),
            Command(
                "show",
                "turns:show_command",
                (Take("turn", required=True), _EXISTING_STORE, "engine"),
                "Show a turn: its message, and what became of it.",
            ),
            Command(
                "retry",
                "turns:retry_command",
                (Take("turn", required=True), _EXISTING_STORE, "engine"),
                "Have a turn that failed or was cancelled taken again.",
            ),
            Command(
                "cancel",
                "turns:cancel_command",
                (Take("turn", required=True), _EXISTING_STORE, "engine"),
                "Take a turn out of the queue, or stop it if it runs.",
            ),
        ),
        "List, show, retry and cancel turns in the queue of a store.",
    ),
    Command(
        "inspect",
        "inspect:inspect_command",
        (
            "listed",
            Take("store", default=DEFAULT_STORE),
            "recorded_format lenient",
            Take("model", "Show requests as another model would get them."),
            "redact listen host port",
            Take("tokens", "With --listen: who may send and look: FILE or env:NAME."),
            Take("allow_host", "With --listen: another name to answer to."),
            Take("upstream", "With --listen: where requests to a provider go."),
            Take("html", "Write one session as a page of its own, redacted, and stop."),
            "raw",
            Take("session", "With --html: the stored session or recording to write."),
            Take("app", "The app of that session, where several have its id."),
            Take("only_user", "The user of that session."),
        ),
        """See in a browser what models saw, and why: stored sessions, or recordings.

        Name the programs that ran the stored sessions, so that their instructions and tools show.
        Recordings may be of any format that Weft reads. Nothing is run and nothing is sent.
        With --listen it shows what other programs send here while they run: traces, or their
        requests to a provider, which are passed on as they come.
        """,
    ),
    Command(
        "receipt",
        "inspect:receipt_command",
        (
            Take("id", "The session's id, or a recording.", "SESSION|FILE"),
            Take("listed", "The program that ran it: pkg.module:object.", "TARGETS"),
            _EXISTING_STORE,
            "recorded_format lenient",
            Take("session", spelling=Option("--recording", help="Which of them.", metavar="ID")),
            Take("model", "The model that answered, where the log does not say."),
            _ONLY_APP,
            "only_user",
            Take("as_json", "The receipt as JSON."),
        ),
        """Show what each call of a session was expected to cost, what was billed, and why.

        Name the program that ran a stored session, so that its instructions and tools are counted.
        With --store sqlite:///weft-proxy.db it is a session that went through `weft proxy`.
        Nothing is run and nothing is sent.
        """,
    ),
    Command(
        "load",
        "load_generator:load_command",
        (
            "load_target sessions turns rate latency",
            Take("message", "What is said to your agent; the scripted one needs none."),
            Take("store", "postgresql://... or sqlite:///FILE; left out, one of its own."),
            Take("app", "Which app of the server."),
            "load_engine load_workers load_slots chaos faults stop_seconds silence patience",
            "seed plot",
            Take("model", "Ask another model than your agent names."),
            Take("as_json", "The figures as JSON."),
        ),
        """Load a server, workers or an agent, with faults; 1 if anything is lost or doubled.

        Without TARGET it is a scripted agent, in this process or in --workers that it starts, on
        a database of its own. What is stored is read afterwards and judged: messages, answers and
        effects that are lost or doubled, and sessions out of order.
        """,
    ),
    CommandGroup(
        "sessions",
        (
            Command(
                "list",
                "store:list_command",
                (_EXISTING_STORE, _ONLY_APP, "only_user as_json"),
                "List the sessions of a store, the latest first.",
            ),
            Command(
                "show",
                "store:show_command",
                ("id", _EXISTING_STORE, _ONLY_APP, "only_user"),
                "Show a conversation in short lines, and the state at its end.",
            ),
            Command(
                "pending",
                "store:pending_command",
                (_EXISTING_STORE, _ONLY_APP, "only_user as_json"),
                "List the questions that runs wait on, the oldest first.",
            ),
            Command(
                "export",
                "store:export_command",
                ("id", _EXISTING_STORE, _ONLY_APP, "only_user", Take("output", "Write it here.")),
                "Write a session as ADK's JSON, as `weft explain --session FILE` reads it.",
            ),
            Command(
                "import",
                "imports:import_command",
                (
                    Take("files", required=True),
                    "recorded_format lenient",
                    Take("store", "sqlite:///FILE or postgresql://...", default=DEFAULT_STORE),
                    Take("only_user", "Whose they are; their own, else `user`, if left out."),
                    Take("app", "Their app; their own, else `imported`, if left out."),
                    Take("agent", "The agent whose words the answers are."),
                    "limit",
                    Take("as_json", "What was imported, as JSON."),
                ),
                "Read sessions of other programs into a store; the format is found by its shape.",
            ),
            Command(
                "rewind",
                "store:rewind_command",
                ("id before last", _EXISTING_STORE, _ONLY_APP, "only_user"),
                "Take a session back to before an invocation; nothing is deleted from its log.",
            ),
            Command(
                "delete",
                "store:delete_command",
                (
                    Take(
                        "session",
                        spelling=Argument(
                            help="Only this session, with its artifacts.", show_default=False
                        ),
                    ),
                    Take("only_user", "Whose data."),
                    _EXISTING_STORE,
                    _ONLY_APP,
                    "yes",
                ),
                """Delete all data of a user: sessions, state, memories, artifacts, queued turns.

                With the id of a session, only that. Without --yes it only says what there is.
                Nothing is left in the files of the store.
                """,
            ),
            Command(
                "prune",
                "store:prune_command",
                ("older_than", _EXISTING_STORE, _ONLY_APP, "only_user yes"),
                """Delete the sessions that have not changed for a while, with their artifacts.

                Without --yes it only lists them.
                """,
            ),
            Command(
                "archive",
                "store:archive_command",
                (
                    Take(
                        "session",
                        spelling=Argument(help="Only this session.", show_default=False),
                    ),
                    "keep_recent",
                    Take("older_than", "Only events that are older: 90d, 12h or 30m."),
                    _EXISTING_STORE,
                    _ONLY_APP,
                    "only_user",
                ),
                """Pack the older events of long sessions, so that they take less room.

                Whoever reads a session finds them as before. Upgrade all workers first: those of
                the version before refuse a session that is archived.
                """,
            ),
        ),
        "List, show, export, import, rewind, archive and delete stored sessions.",
    ),
    CommandGroup(
        "store",
        (
            Command(
                "status",
                "store:status_command",
                (_EXISTING_STORE,),
                "Say which version the tables of a store have, and what to do about it.",
            ),
            Command(
                "migrate",
                "store:migrate_command",
                (
                    Take("store", default=DEFAULT_STORE),
                    Take("engine", "Of this queue too: inbox, procrastinate or dbos.", default=""),
                ),
                "Make the tables of a store, or bring them up to date, while others use it.",
            ),
            Command(
                "downgrade",
                "store:downgrade_command",
                (_EXISTING_STORE, "yes"),
                "Take the tables back by one version, for the Weft before this one.",
            ),
            Command(
                "backup",
                "store:backup_command",
                (_EXISTING_STORE, Take("output", "The copy.")),
                "Copy a file of sessions while it is in use.",
            ),
            Command(
                "verify",
                "store:verify_command",
                (_EXISTING_STORE,),
                "Check that every row of a store is what was stored, while others use it.",
            ),
        ),
        "The tables of a store: their version, one on or back, a backup, a check of every row.",
    ),
    Command(
        "compile",
        "requests:compile_command",
        (*_REQUEST, Take("as_json", "Exactly the provider's JSON."), "step count"),
        "Compile one request and show it.",
    ),
    Command(
        "explain",
        "requests:explain_command",
        (
            *_REQUEST,
            "recorded_format lenient",
            Take("as_json", "The report as JSON."),
            "html everything step",
        ),
        """Compile one request and say where every token of it came from.

        TARGET may be a recording instead: its last request, or the one that led to --step N.
        """,
    ),
    Command(
        "diff",
        "requests:diff_command",
        (
            "target",
            _SESSION_FILE,
            "steps",
            Take("policies", 'As in code: "C.window(5)"; or two.'),
            "store trusted app only_user agent dialect model",
            Take("as_json", "The changes as JSON."),
            "exit_code",
        ),
        """Compare two requests of a session: two steps, or one step under two policies.

        One step is compared with the same agent's request before it, one policy with the agents'
        own. Without --step it is the last one.
        """,
    ),
    Command(
        "check",
        "check:check_command",
        (
            "target inputs report_form explain fix watch allow infer",
            Take("strict", "Notes are findings too."),
        ),
        "Check a flow: 0 if nothing is wrong, 1 if there are findings.",
    ),
    Command(
        "graph",
        "check:graph_command",
        ("target picture_form output inputs",),
        "Draw a flow: what runs after what, who writes and who reads, and what is wrong.",
    ),
    Command(
        "replay",
        "replay:replay_command",
        (
            "files recorded_format lenient policies models recorded_target limit gap",
            "sessions_per_hour rivals oracle store session",
            _ONLY_APP,
            "only_user",
            Take("as_json", "The rows as JSON."),
            Take("html", "Write tables and plots."),
            "frontier",
        ),
        """Compile recorded sessions again under several policies and models, and compare.

        FILES are recordings of any format that Weft reads, its own and those of other programs.
        Append-only, `C.default()`, is always the first row. Without --model, recordings that name
        a model are priced as that; costs of the others are counted in fresh tokens: 0.10 for one
        that is read again, 1.25 for one that is kept.
        """,
    ),
    Command(
        "eval",
        "eval:eval_command",
        (
            "target cases repeat parallel baseline save tolerance model strict",
            Take("as_json", "The outcomes as JSON."),
        ),
        """Run an agent on the cases of a file; 1 if a case fails, or got worse.

        With --baseline it is 1 only where a case passes less often than it did.
        """,
    ),
    CommandGroup(
        "model",
        (
            Command(
                "get",
                "models:get_command",
                (Take("name", "The weights' name; the small ones if none is given."),),
                "Fetch weights with this machine's pip, check their hash, and say where they lie.",
            ),
            Command(
                "list",
                "models:list_command",
                (),
                "List the weights there are by name, and where those lie that were fetched.",
            ),
            Command(
                "remove",
                "models:remove_command",
                (Take("name", required=True),),
                "Delete weights that were fetched, and whatever an interrupted fetch left.",
            ),
        ),
        "Fetch, list and remove the weights of local models.",
    ),
    Command(
        "models",
        "models:models_command",
        (Take("name", "One model: its limits, abilities, caching and price."), "as_json"),
        "Show which models are set up, what is missing, and how to get it; or all about one.",
    ),
    Command(
        "rule",
        "help:rule_command",
        ("code",),
        "Explain a diagnostic code; without one, list them all.",
    ),
    Command(
        "doctor",
        "help:doctor_command",
        (),
        "Look at Python, dependencies, extras, tokenizers, prices, keys and the working folder.",
    ),
)


def function_of(
    takes: tuple[str | Take, ...], run: Callable[[CommandOptions], int], *, about: str
) -> Callable[..., int]:
    """A function as typer reads it: a parameter for each option, `about` as its docstring."""

    def command(**values: object) -> int:
        # a copy: the dataclass is frozen, and its constructor wants what this command does not take
        options = copy.copy(_UNTAKEN)
        vars(options).update(values)
        if options.store is not None:
            vars(options)["store"] = read_address(options.store)
        return run(options)

    parameters = [
        _parameter(one)
        for take in takes
        for one in ([take] if isinstance(take, Take) else map(Take, take.split()))
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = about
    return command


_UNTAKEN = CommandOptions(target="", id="", targets=[])


_HINTS = get_type_hints(CommandOptions, include_extras=True)


_DEFAULTS = {field.name: field.default for field in fields(CommandOptions)}


def _parameter(take: Take) -> inspect.Parameter:
    """The option as a parameter of a function."""
    if take.name not in _HINTS:
        raise TypeError(f"CommandOptions has no field `{take.name}`: declare the option there")
    kind, usual = get_args(_HINTS[take.name])
    spelling = copy.copy(take.spelling or usual)
    if take.help is not None:
        spelling.help = take.help
    if take.metavar is not None:
        spelling.metavar = take.metavar
    default = _DEFAULTS[take.name] if take.default is _USUAL else take.default
    if take.required or default is MISSING:
        default = inspect.Parameter.empty
    return inspect.Parameter(
        take.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, spelling],
    )
