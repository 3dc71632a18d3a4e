"""A server, a provider that knows the script, and OpenCode's terminal UI attached to the server."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.testing.provider import Provider, serve_provider
from asyncagents.testing.provider_reply import Reply
from asyncagents.testing.provider_script import Playbook
from tests.peer.provider import Servants
from tests.peer.screen import Screen, Terminal, open_terminal
from tests.peer.stage import ALONE, Ground, Served, free_port, ground_at, program, real_server
from tests.peer.tui_script import SCRIPT
from tests.support.process.command_line import PROGRAM, read_until
from tests.support.process.npm import install_lock

LOCK = Path(__file__).with_name("package-lock.json")
RULES = {"bash": {"*": "allow", "touch *": "ask", "mkdir *": "ask"}}
LATER = '''
from asyncagents import Pending, async_tool


@async_tool
async def deploy(version: str) -> Pending:
    """Deploy a version."""
    return Pending(note=f"{version} is on its way")
'''
"""A tool of the project whose result comes later."""
OTHERWISE = Reply(text="a plain answer")


class Actors(Servants):
    def __init__(self) -> None:
        Playbook.__init__(self, SCRIPT, otherwise=OTHERWISE)


@asynccontextmanager
async def open_actors() -> AsyncIterator[Provider]:
    provider = Provider(Actors(), key=None, strict=False, remember=True)
    async with serve_provider(provider):
        yield provider


def ground_for(root: Path, provider: Provider) -> Ground:
    ground = ground_at(root, provider.url)
    file = ground.config / "opencode.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "permission": RULES, "snapshot": True}))
    return ground


class Play(Struct, frozen=True):
    """What a scene has: the screen, the server with the ground it stands on, the provider."""

    screen: Screen
    served: Served
    provider: Provider
    stage: "Stage"

    @property
    def ground(self) -> Ground:
        return self.served.ground

    async def says(self, text: str) -> None:
        await self.screen.type(text)
        await self.screen.press("Enter")

    async def rests(self, *texts: str) -> str:
        """With these on the screen, and nothing under way."""
        return await self.screen.shows(*texts, without=("esc interrupt", "esc again"))


class Stage:
    """Attaches terminal UIs, each with a home of its own."""

    def __init__(self, terminal: Terminal, modules: Path, served: Served) -> None:
        self._terminal = terminal
        self._modules = modules
        self._served = served
        self._attached = 0

    async def attach(self, directory: Path) -> Screen:
        self._attached += 1
        home = self._served.ground.home.with_name(f"home-of-tui-{self._attached}")
        here = replace(self._served.ground, home=home).environment()
        state = home / ".local/state/opencode"
        state.mkdir(parents=True)
        # Nothing moves on a screen that rests.
        (state / "kv.json").write_text(json.dumps({"animations_enabled": False, "tips_hidden": True}))
        password = {"OPENCODE_SERVER_PASSWORD": self._served.token} if self._served.token else {}
        words = (program(self._modules), "attach", self._served.url, "--dir", directory)
        screen = await self._terminal.open(words, cwd=directory, env={**here, **ALONE, **password})
        await screen.shows("Ask anything", "The model")
        return screen


@asynccontextmanager
async def playing(served: Served, provider: Provider) -> AsyncIterator[Play]:
    modules = await install_lock(LOCK)
    async with open_terminal() as terminal:
        stage = Stage(terminal, modules, served)
        yield Play(await stage.attach(served.ground.project), served, provider, stage)


@asynccontextmanager
async def the_real_one(root: Path) -> AsyncIterator[Play]:
    modules = await install_lock(LOCK)
    async with (
        open_actors() as provider,
        real_server(modules, ground_for(root, provider)) as served,
        playing(served, provider) as play,
    ):
        yield play


@asynccontextmanager
async def ours(root: Path) -> AsyncIterator[tuple[Play, "OurServer"]]:
    async with open_actors() as provider:
        ground = ground_for(root, provider)
        tool = ground.project / ".asyncagents/tools/deploy.py"
        tool.parent.mkdir(parents=True)
        tool.write_text(LATER)
        server = OurServer(ground)
        try:
            async with playing(await server.start(), provider) as play:
                yield play, server
        finally:
            await server.kill()


class OurServer:
    """Always at the same port: who was attached finds the next one."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._port = free_port()
        self._process: Process | None = None

    async def start(self) -> Served:
        data = self._ground.home / "data"
        self._process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "serve", "--port", str(self._port)),
            cwd=self._ground.project,
            env={**self._ground.environment(), "ASYNCAGENTS_DATA_DIR": str(data), "ASYNCAGENTS_TRUST": "1"},
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )
        url = (await read_until(self._process, "\n")).removeprefix("listening at ").strip()
        return Served(url, self._ground, json.loads((data / "server.json").read_text())["token"])

    async def kill(self) -> None:
        """As a crash does it, with all it started."""
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.communicate()
