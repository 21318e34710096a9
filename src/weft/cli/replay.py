"""`weft replay`: recorded sessions under other policies and models, and what that costs."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as given
from weft.errors import UsageError


def replay_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A session, or JSONL of sessions or chats; .gz too.", metavar="FILE"),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help='As in code: "C.window(5)"; several.', metavar="POLICY"),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Prices and cache rules to use; several.", metavar="NAME"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="The agents that were recorded.", metavar="MODULE:OBJECT"),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Only the first so many.", min=1)
    ] = None,
    store: given.STORE = None,
    session: given.SESSION = None,
    app: given.ONE_APP = None,
    user: given.ONE_USER = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write tables and plots.", metavar="FILE")
    ] = None,
) -> int:
    """Compile recorded sessions again under several policies and models, and compare.

    Append-only, `C.default()`, is always the first row. Without --model costs are counted in
    fresh tokens: 0.10 for one that is read again, 1.25 for one that is kept.
    """
    from weft.cli.render import print_json
    from weft.cli.replaying import Wanted, replayed
    from weft.compiler.replay_page import replay_page
    from weft.compiler.replay_rows import as_json as rows_json
    from weft.compiler.replay_rows import lines

    if (file is None) == (store is None):
        raise UsageError(
            "what is to be replayed?" if file is None else "FILE and --store name two sources",
            where="replay",
            hint="weft replay FILE, or weft replay --store ADDRESS",
        )
    trials = replayed(Wanted(file, policy or [], model or [], target, limit, store, session, app,
                             user))  # fmt: skip
    source = file.name if file is not None else "stored sessions"
    if html is not None:
        html.write_text(replay_page(trials, source=source), "utf-8")
    if as_json:
        print_json({"source": source, "rows": [*rows_json(trials)]})
        return 0
    for line in lines(trials):
        print(line)
    if html is not None:
        print(f"wrote {html}")
    return 0
