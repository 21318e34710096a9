"""The command line: a command is a function in its file; the logic stays in the library.

Exit codes: 0 clean, 1 findings, 2 an error of usage or input, said in one line on stderr.
Every error is caught here and nowhere else, so no command shows a traceback.
"""

import io
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

import weft
from weft.cli.commands import COMMANDS, Command, CommandGroup
from weft.errors import LostContent, LoweringError, MissingVariable, WeftError


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weft {weft.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Run agents, compile what they are asked, and explain it."""


def program(commands: Iterable[Command | CommandGroup]) -> typer.Typer:
    """A program with these commands."""
    typed = typer.Typer(
        name="weft",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    typed.callback()(_root)
    for command in commands:
        command.add_to(typed)
    return typed


app = program(COMMANDS)


def _show_log(name: str) -> None:
    """Print what a part of Weft logs, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("weft: %(message)s"))
    log = logging.getLogger(name)
    log.handlers = [handler]
    log.setLevel(logging.INFO)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started it: what is printed goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    logging.getLogger("weft").addHandler(logging.NullHandler())  # the diagnostics say it better
    _show_log("weft.models.local")  # which no diagnostic says
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal in another encoding shows an escape, and the command goes on. Lines of both
            # streams come in the order in which they were written, in a file too.
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        # all commands together take longer to build than one of them runs
        named = [one for one in COMMANDS if one.name in words[:1]]
        run = program(named) if named else app
        code = run(words or ["--help"], prog_name="weft", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # what typer makes of it
            return _reader_gone()
        _complain(f"{_blame(error)}: the code exits (sys.exit({error.code!r}))")
        return 2
    except typer.Exit as done:
        return done.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except typer.TyperException as error:
        return _usage(error, words)
    except WeftError as error:
        _complain(str(error))
        is_strict = "--strict" in words and isinstance(error, LoweringError | MissingVariable)
        return 1 if is_strict or isinstance(error, LostContent) else 2
    except OSError as error:
        _complain(f"{error.filename or 'input/output'}: {error.strerror or error}")
        return 2
    except Exception as error:
        _complain(f"{_blame(error)}: {type(error).__name__}: {_first_line(error)}")
        return 2
    return (code if isinstance(code, int) else 0) if words else 2


def _reader_gone() -> int:
    """Be quiet, and keep Python from complaining when it flushes stdout at exit."""
    sys.stdout = sys.__stdout__
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _usage(error: typer.TyperException, arguments: Sequence[str]) -> int:
    """A mistake in the command itself: what is wrong, and where to read how it is written."""
    message = error.format_message().rstrip(".").replace("Value error, ", "")
    groups = {
        one.name: {below.name for below in one.commands}
        if isinstance(one, CommandGroup)
        else set[str]()
        for one in COMMANDS
    }
    command = next((word for word in arguments if word in groups), "")
    if len(arguments) > 1 and arguments[1] in groups.get(command, ()):
        command = f"{command} {arguments[1]}"
    where = f"weft {command}".rstrip()
    _complain(f"{command or 'usage'}: {message[:1].lower()}{message[1:]}\n  hint: {where} --help")
    return 2


def _blame(error: BaseException) -> str:
    from weft.cli.load import blame

    return blame(error)


def _complain(text: str) -> None:
    """`weft: where: message` on one line, the hint on the next."""
    message, _, hint = text.partition("\n  hint: ")
    line = " ".join(message.split())
    print(f"weft: {line}", file=sys.stderr)
    if hint:
        print(f"  hint: {' '.join(hint.split())}", file=sys.stderr)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
