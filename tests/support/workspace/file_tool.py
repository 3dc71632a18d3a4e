"""A project with something outside of it, and tools that are planned and then run, as the engine does."""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.engine.tool import AnyTool, Ask, ToolContext
from asyncagents.tools.builtin.edit import edit
from asyncagents.tools.builtin.glob import glob
from asyncagents.tools.builtin.grep import grep
from asyncagents.tools.builtin.list import list_files
from asyncagents.tools.builtin.read import read
from asyncagents.tools.builtin.write import write
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.open_beneath import OpenFolder, has_openat2, open_by_openat2, open_by_walk
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.process.processes import Processes

SECRET = "the secret outside"
_HERE, _EXCHANGE = -100, 2


class ToolDesk:
    def __init__(self, folder: Path, open_folder: OpenFolder | None = None) -> None:
        self.root = folder / "project"
        self.outside = folder / "outside"
        self.home = folder / "home"
        for each in (self.root, self.outside, self.home):
            each.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        self.files = Files(self.root, home=self.home, open_folder=open_folder)
        self.seen = ReadLog()
        environment = {"PATH": os.environ.get("PATH", os.defpath)}
        self.processes = Processes(environment, folder=folder / "output", namespace=False)
        made: list[AnyTool] = [make(self.files, self.seen) for make in (read, write, edit)]
        made += [make(self.files, self.seen, self.processes) for make in (list_files, glob)]
        self.tools = {tool.name: tool for tool in made}
        self.calls = 0

    def put(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def context(self, session: str = "ses_1") -> ToolContext:
        self.calls += 1
        return ToolContext(
            session_id=SessionId(session),
            message_id=MessageId("msg_1"),
            call_id=CallId(f"tool_{self.calls}"),
            agent="build",
            directory=str(self.root),
        )

    async def plan(self, tool: str, context: ToolContext, **given: Any) -> tuple[Ask, ...]:
        plan = self.tools[tool].plan
        assert plan is not None
        return await plan(msgspec.convert(given, self.tools[tool].args), context)

    async def run(self, tool: str, context: ToolContext, **given: Any) -> Completed:
        result = await self.tools[tool].run(msgspec.convert(given, self.tools[tool].args), context)
        assert isinstance(result, Completed)
        return result

    async def call(self, tool: str, **given: Any) -> Completed:
        """Planned and, everything granted, run."""
        context = self.context()
        await self.plan(tool, context, **given)
        return await self.run(tool, context, **given)


@contextmanager
def swap_forever(desk: ToolDesk) -> Iterator[None]:
    """`d` is in turns a folder of ours and a link to the outside, with no moment between."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        pytest.skip("needs an exchange of two names")
    desk.put("d/secret.txt", "mine")
    (desk.root / "link").symlink_to(desk.outside)
    one, other = (os.fsencode(desk.root / name) for name in ("d", "link"))
    stop, turned = threading.Event(), threading.Event()
    failures: list[int] = []

    def swap() -> None:
        while not stop.is_set():
            if libc.renameat2(_HERE, one, _HERE, other, _EXCHANGE):
                failures.append(ctypes.get_errno())
                stop.set()
            turned.set()

    thread = threading.Thread(target=swap)
    thread.start()
    turned.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures


OPEN_WAYS = [
    pytest.param(
        open_by_openat2, id="kernel", marks=pytest.mark.skipif(not has_openat2(), reason="needs openat2")
    ),
    pytest.param(open_by_walk, id="walk"),
]


def open_grep_desk(folder: Path, *, seconds: float = 60, **more: str) -> ToolDesk:
    desk = ToolDesk(folder)
    environment = {"PATH": os.environ.get("PATH", os.defpath), **more}
    processes = Processes(environment, folder=folder / "output", namespace=False)
    desk.tools["grep"] = grep(desk.files, desk.seen, processes, seconds=seconds)
    return desk
