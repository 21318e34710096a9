"""The vendors' own clients, pointed at the engine that a file serves."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.support.late import late
from weft.models.local import LocalServer

if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic, openai = late("anthropic"), late("openai")


@pytest.fixture
async def client(server: LocalServer) -> "AsyncIterator[openai.AsyncOpenAI]":
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=server.api_key) as held:
        yield held


@pytest.fixture
async def claude(server: LocalServer) -> "AsyncIterator[anthropic.AsyncAnthropic]":
    async with anthropic.AsyncAnthropic(base_url=server.url, api_key=server.api_key) as held:
        yield held
