"""The command `weft`, also as `python -m weft`. Its packages come with an extra."""

import sys

_PACKAGES = ("typer", "rich")


def main() -> int:
    """Run the command line, or say which extra it needs."""
    try:
        from weft.cli import main as run
    except ModuleNotFoundError as error:
        # any other missing module is a mistake of ours, and is shown as one
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        print(
            f"weft: the command line needs the package `{error.name}`\n"
            "  hint: pip install 'weft[cli]'",
            file=sys.stderr,
        )
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
