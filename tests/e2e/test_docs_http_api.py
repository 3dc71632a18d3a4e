"""docs/http-api.md: its first commands start a server that answers them."""

import asyncio
import shutil
from pathlib import Path

import pytest

from asyncagents.testing.provider import open_provider
from tests.support.fenced_block import KEY, Bench, read_blocks


@pytest.mark.skipif(shutil.which("curl") is None, reason="the commands of the page need curl")
async def test_the_commands_of_the_page_are_answered(tmp_path: Path) -> None:
    (block,) = read_blocks("docs/http-api.md")
    async with open_provider(key=KEY, remember=False) as provider:
        outcome = await asyncio.to_thread(Bench(tmp_path, provider.url).run, block)

    assert outcome.code == 0, outcome.err
    assert '{"tasks":[],"total":0,"limit":50,"offset":0}' in outcome.out
    assert '"messageID":"msg_' in outcome.out
