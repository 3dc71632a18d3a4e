"""Runs `drive/drive.mjs` against a server and reads what it was told."""

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec import Struct

from tests.peer.compare import plain
from tests.peer.provider import open_servants
from tests.peer.stage import Served, ground_at, our_server, real_server

SCRIPT = Path(__file__).parent / "drive" / "drive.mjs"
LOCK = Path(__file__).parent / "package-lock.json"
PATIENCE = 600.0


class Told(Struct, frozen=True):
    """What was answered, by entry point and method; which methods the SDK has, and which were called."""

    answers: dict[str, Any]
    methods: dict[str, list[str]]
    called: dict[str, list[str]]

    @property
    def broken(self) -> list[str]:
        kept = ((name, each.get("broken") or each.get("thrown")) for name, each in self.answers.items())
        return [f"{name}: {why}" for name, why in kept if why]


async def driven(served: Served, modules: Path, **more: Any) -> Told:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    ground = served.ground
    given = {
        "url": served.url,
        "token": served.token,
        "modules": str(modules),
        **{name: str(getattr(ground, name)) for name in ("project", "other", "plain")},
        **more,
    }
    process = await asyncio.create_subprocess_exec(node, str(SCRIPT), json.dumps(given), stdout=PIPE)
    try:
        async with asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    told = msgspec.json.decode(out, type=Told)
    return msgspec.structs.replace(told, answers=plain(told.answers, places(served)))


def places(served: Served) -> Mapping[str, str]:
    ground = served.ground
    named = {name: str(getattr(ground, name)) for name in ("project", "other", "plain", "home")}
    found = {path: f"<{name}>" for name, path in named.items()}
    encoded = {quote(path, safe=""): name for path, name in found.items()}
    addresses = {served.url: "<url>", ground.provider: "<provider>"}
    return {**found, **encoded, **addresses, str(ground.home.parent): "<root>"}


async def both(modules: Path, root: Path, **more: Any) -> tuple[Told, Told]:
    """Drive OpenCode's server and ours at the same time, each in directories and with a provider of its own.

    `more` goes to the script: `versions` are the entry points of the SDK that are used.
    """
    return await asyncio.gather(real(modules, root / "real", **more), ours(modules, root / "ours", **more))


async def real(modules: Path, root: Path, **more: Any) -> Told:
    async with open_servants() as provider, real_server(modules, ground_at(root, provider.url)) as served:
        return await driven(served, modules, **more)


async def ours(modules: Path, root: Path, **more: Any) -> Told:
    async with open_servants() as provider, our_server(ground_at(root, provider.url)) as served:
        return await driven(served, modules, **more)
