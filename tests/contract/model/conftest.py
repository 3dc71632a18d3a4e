"""The wires that must keep the contract of a model."""

from collections.abc import AsyncIterator

import pytest

from asyncagents.llm.http.client import HttpClient, open_http_client
from tests.support.llm.wire import ANTHROPIC, OPENAI, Wire


@pytest.fixture(params=[OPENAI, ANTHROPIC], ids=lambda wire: wire.name)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with open_http_client() as opened:
        yield opened
