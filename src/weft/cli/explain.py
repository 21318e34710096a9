"""`weft explain`: the report of a request, as text, JSON or a page."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as given
from weft.compiler import Compilation
from weft.errors import ModelError, UsageError


def explain_command(
    target: given.TARGET,
    message: given.MESSAGE = None,
    state: given.STATE = None,
    session: given.SESSION_OR_FILE = None,
    store: given.STORE = None,
    trusted: given.TRUSTED = False,
    app: given.APP = None,
    user: given.ONE_USER = None,
    agent: given.AGENT = None,
    dialect: given.DIALECT = None,
    model: given.MODEL = None,
    option: given.OPTION = None,
    strict: given.STRICT = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write the report as a page.", metavar="FILE")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Show every row of a long history.")
    ] = False,
    step: given.STEP = None,
) -> int:
    """Compile one request and say where every token of it came from."""
    from weft.cli.inputs import Inputs, exit_code, request

    # imported above
    from weft.cli.render import print_json, print_report

    if as_json and html is not None:
        raise UsageError("--json and --html ask for two forms", where="explain", hint="give one")
    compiled = request(
        Inputs(
            target=target,
            message=message,
            state=state or [],
            session=session,
            store=store,
            trusted=trusted,
            app=app,
            user=user,
            agent=agent,
            dialect=dialect,
            model=model,
            options=option or [],
            strict=strict,
            step=step,
        )
    )
    read_as_its_model_does(compiled)
    report = compiled.explain()
    if html is not None:
        html.write_text(report.to_html(), "utf-8", errors="backslashreplace")
        print(f"wrote {html}")
    elif as_json:
        print_json(report.to_dict())
    else:
        print_report(report, everything=everything)
    return exit_code(compiled, strict=strict)


def read_as_its_model_does(compiled: Compilation) -> None:
    """Let the model's own tokens say what is reused; without them it is estimated.

    Only where there is something to compare: loading the weights takes a second. Nothing is
    fetched to explain something.
    """
    if not compiled.plan.target.facts.cache.exact or compiled.previous is None:
        return
    from weft.models.local import LocalModel

    model = LocalModel(compiled.prompt.model, slots=1, fetch=False)
    try:
        model.start()
    except ModelError:
        return  # it is not here: the report says that it is an estimate
    compiled.reads = model.tokens
