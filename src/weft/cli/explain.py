"""`weft explain`: the report of a request, as text, JSON or a page."""

from weft.cli.inputs import exit_code, request
from weft.cli.options import CommandOptions
from weft.cli.render import print_json, print_report
from weft.compiler import Compilation
from weft.errors import ModelError, UsageError


def explain_command(options: CommandOptions) -> int:
    """Compile one request and say where every token of it came from."""
    if options.as_json and options.html is not None:
        raise UsageError("--json and --html ask for two forms", where="explain", hint="give one")
    compiled = request(options)
    read_as_its_model_does(compiled)
    report = compiled.explain()
    if options.html is not None:
        options.html.write_text(report.to_html(), "utf-8", errors="backslashreplace")
        print(f"wrote {options.html}")
    elif options.as_json:
        print_json(report.to_dict())
    else:
        print_report(report, everything=options.everything)
    return exit_code(compiled, strict=options.strict)


def read_as_its_model_does(compiled: Compilation) -> None:
    """Use the model's own tokens to tell what is reused. Without them it is estimated.

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
