"""An MCP server of the official SDK, with one tool for each thing that a server may do.

`WEFT_JOURNAL` names a file to which the tools that change something append a line each;
`WEFT_LISTING` a file whose text is the description of `add`.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("toy")

READS = ToolAnnotations(read_only_hint=True)
REPEATS = ToolAnnotations(idempotent_hint=True)


def note(line: str) -> None:
    path = os.environ.get("WEFT_JOURNAL")
    if path:
        with Path(path).open("a", encoding="utf-8") as journal:
            journal.write(f"{line}\n")


listing = os.environ.get("WEFT_LISTING")
about = Path(listing).read_text() if listing else "Add two numbers."


@server.tool(description=about, annotations=READS)
def add(a: int, b: int) -> int:
    return a + b


@server.tool(annotations=READS)
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
def pay(amount: int) -> str:
    """Pay an amount. It must not happen twice."""
    note(f"pay {amount}")
    return f"paid {amount}"


@server.tool()
async def pay_slowly(amount: int) -> str:
    """Pay an amount, which takes until a file is there."""
    note(f"pay {amount}")
    while not Path(os.environ["WEFT_JOURNAL"] + ".go").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.02)
    return f"paid {amount}"


@server.tool(annotations=READS)
def die() -> str:
    """End the process."""
    note("die")
    os._exit(3)


@server.tool(annotations=REPEATS)
def die_once(marker: str) -> str:
    """End the process, unless it did so before."""
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(3)
    return "alive"


@server.tool(annotations=READS)
async def hang(ctx: Context) -> str:
    """Never answer."""
    note("hang")
    try:
        await asyncio.sleep(3600)
    finally:
        note("hang was cancelled")
    return "never"


@server.tool(annotations=READS)
async def count(to: int, ctx: Context) -> int:
    """Count, and tell how far it is."""
    for at in range(to):
        await ctx.report_progress(at + 1, to, f"at {at + 1}")
    return to


@server.tool(annotations=READS)
def picture() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool(annotations=READS)
def long_text(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool(annotations=READS)
def fail() -> str:
    """Fail."""
    raise ValueError("no such thing")


class Person(BaseModel):
    name: str
    age: int = 0


def who() -> Elicit[Person]:
    note("asked who")
    return Elicit("Who are you?", Person)


@server.tool()
def introduce(person: Annotated[Person, Resolve(who)]) -> str:
    """Say who somebody is; asks them."""
    note(f"introduce {person.name}")
    return f"this is {person.name}"


@server.tool()
async def greet(ctx: Context) -> str:
    """Greet somebody; asks who, while the call is open."""
    note("greet began")
    answer = await ctx.elicit("Who is there?", Person)
    name = answer.data.name if answer.action == "accept" else "nobody"
    note(f"greet {name}")
    return f"hello {name}"


@server.resource("toy://guide")
def guide() -> str:
    """How to use it."""
    return "Be kind. {not_a_variable}"


@server.prompt()
def review(language: str) -> str:
    """Ask for a review."""
    return f"Review the {language} code line by line."


PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63"
    "60606060f80f0001040100a7a8d0c10000000049454e44ae426082"
)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
