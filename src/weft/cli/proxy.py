"""`weft proxy`: requests of any agent to its provider, made cheaper; its receipt and its report."""

import os
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from weft.cli.inputs import read_redactions
from weft.cli.options import CommandOptions
from weft.cli.printing import print_json
from weft.cli.serve import listening_hosts, require_known_callers, run_application
from weft.declare.policy import Policy
from weft.declare.words import policy_from
from weft.errors import DeclarationError, UsageError
from weft.misuse import find_near, suggest_names
from weft.models.routing import client_variables, read_upstreams
from weft.models.services import SERVICES
from weft.values import Json

if TYPE_CHECKING:
    from weft.server.proxy_store import ProxyStore

RECEIPT = "receipt"

CONFIG = Path("weft.toml")


class RuleTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[[proxy.rules]]`: the policy of some models or paths."""

    policy: str
    model: str = "*"
    path: str = "*"


class ProxyTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[proxy]` in a weft.toml. What the command line says comes first."""

    policy: str = "C.auto()"
    rules: list[RuleTable] = []
    upstream: dict[str, str] = {}
    limit: list[str] = []
    redact: list[str] = []
    record: str = ""
    strict: bool = False
    cache: bool = False


def read_table(path: Path | None) -> ProxyTable:
    """The table of a file; of the usual file, where there is one and no other is named."""
    chosen = path or (CONFIG if CONFIG.is_file() else None)
    if chosen is None:
        return ProxyTable()
    hint = 'write [proxy] with policy = "C.auto()", or [[proxy.rules]] with a model'
    try:
        tables = tomllib.loads(chosen.read_text("utf-8"))
        table = msgspec.convert(tables.get("proxy", {}), ProxyTable)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        hint = _find_example(str(reason)) or hint
        raise UsageError(f"it cannot be read: {reason}", where=str(chosen), hint=hint) from None
    unknown = next((name for name in tables if name not in _TABLES), None)
    if unknown is not None:
        raise UsageError(
            f"there is no table [{unknown}]",
            where=str(chosen),
            hint=suggest_names(unknown, _TABLES) or "write [proxy], or [mcp.NAME]",
        )
    return table


_TABLES = ("proxy", "mcp")
"""What a weft.toml has; the servers of MCP are read elsewhere."""

_EXAMPLES = {
    "policy": 'policy = "C.auto()"',
    "rules": "[[proxy.rules]], with a model or a path and a policy",
    "upstream": 'upstream = { anthropic = "https://gateway.example" }',
    "limit": 'limit = ["5USD/day"]',
    "redact": 'redact = ["email", "card"]',
    "record": 'record = "calls"',
    "strict": "strict = true",
    "cache": "cache = true",
    "model": 'model = "claude-*"',
    "path": 'path = "/v1/responses"',
}


def _find_example(reason: str) -> str:
    """What to write in place of a setting that a message of msgspec's names."""
    named = re.search(r"unknown field `(\w+)`|at `\$[.\w\[\]]*?\.(\w+)[\[\]\d.]*`", reason)
    if named is None:
        return ""
    wrong = named[1] or named[2]
    near = [wrong] if wrong in _EXAMPLES else find_near(wrong, _EXAMPLES, cutoff=0.6)
    return f"write {_EXAMPLES[near[0]]}" if near else f"known: {', '.join(_EXAMPLES)}"


def proxy_command(options: CommandOptions) -> int:
    """Pass requests on until Ctrl-C, or as long as a command runs, whose exit code it has."""
    words = options.listed or []
    if options.report:
        if words:
            raise UsageError(
                f"--report starts no proxy, so `{words[0]}` would not run",
                where="--report",
                hint="leave one of them out",
            )
        return _print_report(options)
    if words == [RECEIPT]:
        return _print_receipt(options)
    try:
        from weft.server.access import Tokens
        from weft.server.proxy import PolicyRule, ProxyApplication, ProxySettings
        from weft.server.proxy_records import CallLine, CallLog, read_limit
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the proxy needs {error.name}", where="proxy", hint='pip install "weft[serve]"'
        ) from None
    table = read_table(options.config)
    require_known_callers(options)
    file = options.config or CONFIG
    rules = [("--policy", *_read_rule(text)) for text in options.policies or ()]
    rules += [
        (f"{file}: rules[{at}].policy", one.policy, one.model, one.path)
        for at, one in enumerate(table.rules)
    ]
    rules.append((f"{file}: policy", table.policy, "*", "*"))
    with _name_place(f"{file}: redact"):
        redact = read_redactions(table.redact)
    with _name_place(f"{file}: limit"):
        limits = [*map(read_limit, table.limit)]
    with _name_place(f"{file}: upstream"):
        _require_addresses(table.upstream)
    settings = ProxySettings(
        tuple(
            PolicyRule(_read_policy(text, where), model, path) for where, text, model, path in rules
        ),
        read_upstreams(read_named_upstreams(table, options)),
        strict=options.strict or table.strict,
        cache=options.cache or table.cache,
        redact=(*read_redactions(options.redact or ()), *redact),
        limits=(*map(read_limit, options.spend or ()), *limits),
    )
    if options.record is not None and options.no_record:
        raise UsageError(
            "--record and --no-record are given", where="--record", hint="leave one of them out"
        )
    folder = options.record or (Path(table.record) if table.record else None)

    def show(line: CallLine) -> None:
        print(line, file=sys.stderr, flush=True)

    store = _open_file(options)
    if store.problem:
        print(
            f"weft: {store.path}: {store.problem}; bills and what models recall are forgotten when"
            " the proxy ends",
            file=sys.stderr,
        )
    log = CallLog(
        store,
        folder=None if options.no_record else folder,
        records=not options.no_record,
        # a command has the terminal to itself
        show=None if words else show,
        redact=settings.redact,
    )
    application = ProxyApplication(
        settings,
        log,
        tokens=Tokens.read(options.tokens) if options.tokens is not None else None,
        hosts=listening_hosts(options),
    )
    beside = _Beside(words)
    run_application(
        application,
        options,
        what="a proxy",
        ready=beside.start if words else None,
        pass_signal=beside.pass_signal,
    )
    return beside.code


@contextmanager
def _name_place(place: str) -> Generator[None]:
    """Name the place in a file in an error that would name the option."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.message, where=place, hint=error.hint) from None


def _read_policy(text: str, where: str) -> Policy:
    """A policy that a request alone can follow; an error says where it is written."""
    from weft.compaction.compact import require_stateless

    try:
        policy = policy_from(text)
        require_stateless(policy, where="policy")
    except DeclarationError as error:
        place = f"{where}: {error.where}".removesuffix(": policy")
        raise DeclarationError(error.message, where=place, hint=error.hint) from None
    return policy


def _read_rule(text: str) -> tuple[str, str, str]:
    """`POLICY`, `MODEL=POLICY` or `/PATH=POLICY`."""
    pattern, sign, policy = text.partition("=")
    if not sign or "(" in pattern:
        return text, "*", "*"
    return (policy, "*", pattern) if pattern.startswith("/") else (policy, pattern, "*")


def read_named_upstreams(table: ProxyTable, options: CommandOptions) -> dict[str, str]:
    """The addresses of services that are named; none may be the proxy's own."""
    named = {**table.upstream}
    for text in options.upstream or ():
        name, sign, url = text.partition("=")
        if not sign:
            raise UsageError(
                f"`{text}` names no service",
                where="--upstream",
                hint="write anthropic=https://host, or openai=https://host/v1",
            )
        named[name] = url
    _require_addresses(named)
    for name in named:
        near = [] if name in SERVICES else find_near(name, SERVICES, cutoff=0.8)
        if near:
            print(
                f"weft: --upstream: `{name}` is a service of its own, asked at /{name}/...;"
                f" did you mean `{near[0]}`?",
                file=sys.stderr,
            )
    own = {f"{host}:{options.port}" for host in (options.host, "localhost", "127.0.0.1")}
    services = [SERVICES[name] for name in SERVICES if name not in named]
    places = {**named, **{one.name: one.address() for one in services}}
    for name, url in places.items():
        if url.partition("://")[2].partition("/")[0] in own:
            raise UsageError(
                f"{name} is at the proxy's own address, which would ask itself",
                where="proxy",
                hint=f"name the provider's: --upstream {name}=https://host; or another --port",
            )
    return named


def _require_addresses(named: Mapping[str, str]) -> None:
    for name, url in named.items():
        if not url.startswith(("http://", "https://")):
            raise UsageError(
                f"the address of {name} must begin with http:// or https://",
                where="--upstream",
                hint=f"write https://{url or 'host'}, or http:// for one on this machine",
            )


def _open_file(options: CommandOptions) -> "ProxyStore":
    from weft.server.proxy_store import ProxyStore

    address = options.address
    if address == "memory://":
        return ProxyStore()
    if not address.startswith("sqlite:///"):
        raise UsageError(
            "the proxy keeps its recalls in a SQLite file",
            where="--store",
            hint="write sqlite:///FILE, or memory:// to forget them at the end",
        )
    return ProxyStore(Path(address.removeprefix("sqlite:///")))


def _open_known_file(options: CommandOptions) -> "ProxyStore":
    """The file of a proxy that ran before; nothing is made or changed where there is none."""
    from weft.server.proxy_store import is_proxy_store

    path = Path(options.address.removeprefix("sqlite:///"))
    if options.address.startswith("sqlite:///") and not is_proxy_store(path):
        raise UsageError(
            f"no proxy has kept anything in {path}",
            where="--store",
            hint="run `weft proxy` first, or name its file: --store sqlite:///FILE",
        )
    return _open_file(options)


class _Beside:
    """A command that runs as long as the proxy, with the variables that lead its clients here."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self.code = 0

    def start(self, url: str, stop: Callable[[], None]) -> None:
        """Start it; when it ends, so does the proxy."""
        threading.Thread(target=self._run, args=(url, stop), daemon=True).start()

    def pass_signal(self, number: int) -> bool:
        """Let the command have a signal; whether there is one, whose end is the proxy's, too."""
        if self._process is None or self._process.returncode is not None:
            return False
        if number != signal.SIGINT or not _has_terminal():
            self._process.send_signal(number)
        return True

    def _run(self, url: str, stop: Callable[[], None]) -> None:
        try:
            environment = {**os.environ, **client_variables(url)}
            self._process = subprocess.Popen([*self._command], env=environment)
            code = self._process.wait()
            # a shell says so too of a process that a signal ended
            self.code = 128 - code if code < 0 else code
        except OSError as error:
            print(f"weft: {self._command[0]}: {error.strerror}", file=sys.stderr)
            self.code = 127 if isinstance(error, FileNotFoundError) else 126
        finally:
            stop()


def _has_terminal() -> bool:
    """Whether Ctrl-C reaches the command without the proxy: a terminal tells all in front."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # no terminal, no standard input, or Windows
        return False


def _print_receipt(options: CommandOptions) -> int:
    """What was promised, and what the providers billed, by session and in all."""
    from weft.server.proxy_records import count_saved, receipts_of

    calls = _open_known_file(options).list_calls()
    receipts = [one for one in receipts_of(calls) if options.session in (None, one.session)]
    if options.session is not None and not receipts:
        raise UsageError(f"there is no session `{options.session}`", where="--session")
    before, now = count_saved(one for one in calls if options.session in (None, one.session))
    if options.as_json:
        listed: list[Json] = [one.to_json() for one in receipts]
        print_json({"sessions": listed, "as_it_came": before, "as_it_went": now})
        return 0
    for receipt in receipts:
        print(f"{receipt.to_text()}\n")
    if not calls:
        print("no call went through yet")
        return 0
    billed = sum(one.total for one in receipts if one.money)
    saved = 1 - now / before if before else 0.0
    print(f"calls: {len(calls)}, sessions: {len(receipts)}, billed in all: ${billed:.4f}")
    print(f"requests as they went: {saved:.1%} cheaper than as they came, by the price list")
    return 0


def _print_report(options: CommandOptions) -> int:
    """Requests that a provider refused only as we sent them, without their words."""
    pairs = _open_known_file(options).list_refused()
    print_json(
        [
            {
                "dialect": pair.dialect,
                "original": _mask(pair.original, ""),
                "sent": _mask(pair.sent, ""),
                "answer": _mask_text(pair.answer, ""),
            }
            for pair in pairs
        ]
    )
    return 0


_SHOWN = frozenset(("role", "type", "model", "stop_reason", "finish_reason", "dialect"))
"""Fields whose texts say how a request is built, and nothing else."""


def _mask(value: Json, key: str) -> Json:
    """A value with the shape that it has, and none of its words."""
    if isinstance(value, dict):
        return {name: _mask(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_mask(one, key) for one in value]
    return _mask_text(value, key) if isinstance(value, str) else value


def _mask_text(text: str, key: str) -> str:
    return text if key in _SHOWN and len(text) < 60 else f"[{len(text)} letters]"
