"""The published SDK drives OpenCode's server and ours in the same way, and is answered alike."""

import asyncio
from pathlib import Path

import pytest

from tests.e2e.npm import SECONDS, installed_from
from tests.peer.compare import compared, unexplained
from tests.peer.differences import KNOWN
from tests.peer.drive import LOCK, PATIENCE, Told, driven
from tests.peer.left_out import LEFT_OUT
from tests.peer.provider import open_servants
from tests.peer.stage import ground_at, our_server, real_server

pytestmark = pytest.mark.timeout(SECONDS + PATIENCE)


async def real(root: Path, modules: Path) -> Told:
    async with open_servants() as provider, real_server(modules, ground_at(root, provider.url)) as served:
        return await driven(served, modules)


async def ours(root: Path, modules: Path) -> Told:
    async with open_servants() as provider, our_server(ground_at(root, provider.url)) as served:
        return await driven(served, modules)


@pytest.mark.spec("X-01")
async def test_the_published_sdk_is_answered_as_by_opencodes_own_server(tmp_path: Path) -> None:
    modules = await installed_from(LOCK)
    theirs, mine = await asyncio.gather(real(tmp_path / "real", modules), ours(tmp_path / "ours", modules))
    assert not theirs.broken
    assert not mine.broken
    for version, methods in mine.methods.items():
        assert set(methods) - set(mine.called[version]) == set(LEFT_OUT[version])
    strange = unexplained(compared(theirs.answers, mine.answers), KNOWN)
    assert not strange, "\n".join(strange)
