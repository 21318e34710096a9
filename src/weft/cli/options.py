"""What commands are given: the arguments they share, each under one name.

Nothing heavy is imported here, so that `weft --help` is there at once.
"""

from typing import Annotated

import typer

DEFAULT_STORE = "sqlite:///weft.db"
"""Where sessions are kept unless told otherwise: a file in the working folder."""

TARGET = Annotated[
    str, typer.Argument(help="pkg.module:object or path/to/file.py:object", show_default=False)
]
MESSAGE = Annotated[
    str | None, typer.Option("-m", "--message", help="What the user says now.", metavar="TEXT")
]
STATE = Annotated[
    list[str] | None,
    typer.Option("--state", help="A state value; JSON where it is JSON, else text.", metavar="K=V"),
]
SESSION_OR_FILE = Annotated[
    str | None,
    typer.Option(
        "--session",
        help="A session as ADK's JSON; with --store, the id of a stored one.",
        metavar="FILE|ID",
    ),
]
TRUSTED = Annotated[
    bool,
    typer.Option("--trusted", help="The session file is Weft's own: believe what it kept."),
]
SESSION = Annotated[str | None, typer.Option("--session", help="The session's id.", metavar="ID")]
SESSION_ID = Annotated[str, typer.Argument(help="The session's id.", show_default=False)]
STORE = Annotated[
    str | None,
    typer.Option(
        "--store", help="sqlite:///FILE, postgresql://... or memory://", metavar="ADDRESS"
    ),
]
KEPT = Annotated[
    str, typer.Option("--store", help="sqlite:///FILE or postgresql://...", metavar="ADDRESS")
]
USER = Annotated[str, typer.Option("--user", help="Whose session it is.", metavar="ID")]
ONE_USER = Annotated[
    str | None, typer.Option("--user", help="Only this user's sessions.", metavar="ID")
]
APP = Annotated[
    str | None,
    typer.Option("--app", help="The app; that of the target if left out.", metavar="NAME"),
]
ONE_APP = Annotated[
    str | None, typer.Option("--app", help="Only this app's sessions.", metavar="NAME")
]
AGENT = Annotated[
    str | None, typer.Option("--agent", help="Another agent of the tree or flow.", metavar="NAME")
]
DIALECT = Annotated[
    str | None, typer.Option("--dialect", help="Speak another dialect.", metavar="NAME")
]
MODEL = Annotated[str | None, typer.Option("--model", help="Ask another model.", metavar="NAME")]
OPTION = Annotated[
    list[str] | None,
    typer.Option("--option", help="A generation option, such as temperature=0.3.", metavar="K=V"),
]
STRICT = Annotated[bool, typer.Option("--strict", help="Missing variables and losses are errors.")]
STEP = Annotated[
    int | None,
    typer.Option("--step", help="The request behind the session's N-th model event.", metavar="N"),
]
BUDGET_TOKENS = Annotated[
    int | None,
    typer.Option("--budget-tokens", help="Stop when so many tokens are spent.", metavar="N"),
]
BUDGET_SECONDS = Annotated[
    float | None,
    typer.Option("--budget-seconds", help="Stop after so many seconds.", metavar="S"),
]
BUDGET_MONEY = Annotated[
    float | None,
    typer.Option("--budget-money", help="Stop when so many US dollars are spent.", metavar="USD"),
]
CALLS = Annotated[
    int | None,
    typer.Option("--max-llm-calls", help="How often models may be asked.", metavar="N"),
]
