"""`weft sessions`: look into a store, take a session out of it, take an invocation back."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError

sessions_app = typer.Typer(
    name="sessions",
    help="List, show, export and rewind stored sessions.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@sessions_app.command("list")
def list_command(
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    as_json: Annotated[bool, typer.Option("--json", help="The list as JSON.")] = False,
) -> int:
    """List the sessions of a store, the latest first."""
    from weft.cli.keeping import print_list

    return print_list(store, app, user, as_json=as_json)


@sessions_app.command("show")
def show_command(
    id: given.SESSION_ID,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
) -> int:
    """Show a conversation in short lines, and the state at its end."""
    from weft.cli.keeping import print_session

    return print_session(store, id, app, user)


@sessions_app.command("export")
def export_command(
    id: given.SESSION_ID,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it here.", metavar="FILE")
    ] = None,
) -> int:
    """Write a session as ADK's JSON, as `weft explain --session FILE` reads it."""
    from weft.cli.keeping import export

    return export(store, id, app, user, output)


@sessions_app.command("rewind")
def rewind_command(
    id: given.SESSION_ID,
    before: Annotated[
        str | None,
        typer.Option("--before", help="Take back this invocation and all after it.", metavar="ID"),
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Take back the last one.")] = False,
    store: given.KEPT = given.DEFAULT_STORE,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
) -> int:
    """Take a session back to before an invocation; nothing is deleted from its log."""
    if (before is None) != last:
        raise UsageError(
            "how far back?" if before is None else "--before and --last say two things",
            where="rewind",
            hint="--last, or --before INVOCATION; `weft sessions show ID` lists them",
        )
    from weft.cli.keeping import rewind

    return rewind(store, id, app, user, before)
