"""How many tokens a prompt takes, whole and block by block, each block counted once."""

import base64
import binascii
from collections.abc import Iterable
from itertools import pairwise
from typing import assert_never

from weft.compiler.thread import Thread
from weft.ir import (
    Block,
    CallBlock,
    CodeBlock,
    CodeResultBlock,
    Item,
    MediaBlock,
    OpaqueBlock,
    Prompt,
    ResultBlock,
    TextBlock,
    ThoughtBlock,
    ToolDecl,
)
from weft.tokens import (
    counter_for,
    image_size,
    media_tokens,
    overheads_for,
    thought_tokens,
    tool_text,
)
from weft.values import compact


class Scale:
    """Counts for one model in one dialect."""

    def __init__(self, dialect: str, model: str) -> None:
        self.dialect = dialect
        self.model = model
        self.counter = counter_for(model)
        self.overheads = overheads_for(dialect, model)
        self.key = f"{dialect}:{model}"

    def prompt(self, prompt: Prompt, thread: Thread | None = None) -> int:
        """The whole request: system, tools, schema, turns and what the provider adds."""
        return self.fixed(prompt) + self.items(prompt, thread)

    def measure(self, prompt: Prompt, thread: Thread | None = None) -> tuple[int, list[int]]:
        """The whole request, and each of its items."""
        total = self.prompt(prompt, thread)
        sums = thread.sums.get(self.key) if thread is not None else None
        if sums is None or thread is None or thread.settled.memo is not prompt.items.memo:
            return total, self.each(prompt.items)
        settled = [after - before for before, after in pairwise(sums[: prompt.items.settled + 1])]
        return total, settled + self.each(prompt.items.since(prompt.items.settled))

    def fixed(self, prompt: Prompt) -> int:
        """Everything but the turns."""
        total = self.overheads.request + self.tools(prompt) + self.schema(prompt)
        if prompt.system:
            total += self.overheads.turn + self.counter.count(prompt.system_text)
        if prompt.config.get("thinking"):
            total += self.overheads.thinking
        return total

    def tools(self, prompt: Prompt) -> int:
        """All tool declarations and what they add together."""
        if not prompt.tools:
            return 0
        choice = prompt.config.get("tool_choice")
        forced = choice is not None and choice not in ("auto", "none")
        once = self.overheads.tools_forced if forced else self.overheads.tools
        return once + sum(self.tool(tool) for tool in prompt.tools)

    def tool(self, tool: ToolDecl) -> int:
        """One tool declaration as the provider renders it."""
        text = tool_text(self.dialect, self.model, tool.name, tool.description, tool.parameters)
        return self.overheads.tool + round(self.counter.count(text) * self.overheads.tool_json)

    def schema(self, prompt: Prompt) -> int:
        """A native output schema."""
        if prompt.output is None or prompt.output.how != "native":
            return 0
        size = self.counter.count(compact(prompt.output.schema)) * self.overheads.schema_json
        return self.overheads.schema + round(size)

    def items(self, prompt: Prompt, thread: Thread | None = None) -> int:
        """All turns; settled ones are summed up once and remembered with the thread."""
        items = prompt.items
        if thread is None or thread.settled.memo is not items.memo:
            return sum(self.each(items))
        sums = thread.sums.setdefault(self.key, [0])
        done = len(sums) - 1
        if done < items.settled:
            total = sums[-1]
            for size in self.each(items.since(done)[: items.settled - done]):
                total += size
                sums.append(total)
        return sums[items.settled] + sum(self.each(items.since(items.settled)))

    def each(self, items: Iterable[Item]) -> list[int]:
        """The tokens of each item."""
        return [self.item(item) for item in items]

    def item(self, item: Item) -> int:
        """One item with the turns it takes."""
        turns = 1 + sum(1 for one, next_ in pairwise(item.blocks) if one.role != next_.role)
        calls = sum(1 for block in item.blocks if isinstance(block, CallBlock))
        total = turns * self.overheads.turn + sum(self.block(block) for block in item.blocks)
        return total + (self.overheads.parallel if calls > 1 else 0)

    def block(self, block: Block) -> int:
        """One block, without its share of the turn."""
        count, over = self.counter.count, self.overheads
        match block:
            case TextBlock():
                return over.text + count(block.text)
            case ThoughtBlock():
                return thought_tokens(over, count(block.text), len(block.signature or ""))
            case CallBlock():
                size = count(block.name) + count(compact(block.args)) * over.args_json
                return over.call + round(size)
            case ResultBlock():
                size = count(compact(block.response)) * over.result_json
                return over.result + round(size) + sum(self.media(m) for m in block.media)
            case MediaBlock():
                return self.media(block)
            case CodeBlock():
                return over.text + count(block.code)
            case CodeResultBlock():
                return over.text + count(block.output)
            case OpaqueBlock():
                held = block.payload.get("encrypted_content") or block.payload.get("signature")
                if isinstance(held, str):
                    return thought_tokens(over, 0, len(held))
                return over.text + count(compact(block.payload))
            case _:
                assert_never(block)

    def media(self, block: MediaBlock) -> int:
        """An image, document, recording or film."""
        data = block.data or ""
        size = image_size(_head(data)) or (0, 0)
        return media_tokens(
            self.dialect, self.model, block.mime_type, len(data) * 3 // 4, size[0], size[1]
        )


def _head(data: str) -> bytes:
    """Enough of the decoded data to find an image's size in."""
    try:
        return base64.b64decode(data[: 64 * 1024 // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
