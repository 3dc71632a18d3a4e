"""A project beside which lies what no tool may touch unasked, and a batch of calls made there."""

import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.call.ask import PermissionRequest
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.event import Event, PartUpdated, PermissionAsked
from asyncagents.llm.scripted import CallTool, ScriptLine, call, say
from tests.support.hostile.hole import FOLDERS
from tests.support.runtime import Stage, open_stage

CANARY = "CANARY-7f3a"
"""Stands only in files outside of the project: no result may have it."""


class Yard(Struct, frozen=True):
    root: Path
    outside: Path

    @property
    def secret(self) -> Path:
        return self.outside / "secret.txt"

    def picture(self) -> dict[str, str]:
        """Every file inside and outside, and what it holds."""
        tops = (self.root, self.outside)
        return {str(path): _read_held(path) for top in tops for path in sorted(top.rglob("*"))}


def _read_held(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    return path.read_bytes().hex() if path.is_file() else ""


def create_yard(tmp_path: Path, files: Mapping[str, str] | None = None) -> Yard:
    """A git repository, and a folder next to it that holds a secret."""
    place = Yard(tmp_path / "project", tmp_path / "outside")
    subprocess.run(["git", "init", "-q", str(place.root)], check=True)
    place.outside.mkdir()
    place.secret.write_text(f"{CANARY}\n")
    for name, text in (files or {}).items():
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text(text)
    return place


class CallReport(Struct, frozen=True):
    """What became of each call of a batch, in the order of the calls."""

    asks: tuple[PermissionRequest | None, ...]
    states: tuple[ToolCompleted | ToolFailed | None, ...]

    @property
    def unasked(self) -> list[int]:
        """Those that ran without a word."""
        return [number for number, state in enumerate(self.states) if isinstance(state, ToolCompleted)]

    @property
    def text(self) -> str:
        """All that a model would hear of it."""
        return "\n".join(_state_text(state) for state in self.states if state)


def _state_text(state: ToolCompleted | ToolFailed) -> str:
    said = state.output if isinstance(state, ToolCompleted) else state.error
    return f"{said}\n{state.metadata}"


class _Tally:
    """Of the calls of one step: which ask, which have ended."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.asks: dict[str, PermissionRequest] = {}
        self.ends: dict[str, ToolCompleted | ToolFailed] = {}

    def take_event(self, event: Event) -> bool:
        """Whether every call either asks or has ended."""
        match event:
            case PermissionAsked(request=PermissionRequest(tool=tool) as request) if tool is not None:
                self.asks[tool.call_id] = request
            case PartUpdated(part=ToolPart(call_id=call_id, state=ToolCompleted() | ToolFailed() as state)):
                self.ends[call_id] = state
            case _:
                pass
        return len(self.asks.keys() | self.ends.keys()) == self._count


@asynccontextmanager
async def open_coder(
    tmp_path: Path, place: Yard, calls: Sequence[ScriptLine], **config: Any
) -> AsyncIterator[Stage]:
    """A runtime whose model makes these calls in one step when it hears `go`."""
    agents = {name: AgentConfig(mode="all") for name in ("explore", "general")}  # else they get tasks
    coding = Config(data_dir=tmp_path / "data", agent=agents, **config)
    script = {"go": [list(calls), [say("Done.")]]}
    async with open_stage(tmp_path / "data", script, coding=coding, directory=place.root) as at:
        yield at


async def run_calls(
    tmp_path: Path, place: Yard, calls: Sequence[ScriptLine], *, agent: str = "build", **config: Any
) -> CallReport:
    """Make the calls in one step; what asks is left unanswered and ends with the session's work."""
    async with open_coder(tmp_path, place, calls, **config) as at:
        tally = await tally_calls(at, len(calls), agent=agent)
        assert await at.abort()
        part_ids = [
            part.call_id
            for entry in await at.messages()
            for part in entry.parts
            if isinstance(part, ToolPart)
        ]
    assert len(part_ids) == len(calls)
    return CallReport(
        tuple(tally.asks.get(each) for each in part_ids), tuple(tally.ends.get(each) for each in part_ids)
    )


async def asks_after_always(
    tmp_path: Path, place: Yard, first: Sequence[ScriptLine], then: Sequence[ScriptLine], **config: Any
) -> list[PermissionRequest]:
    """What asks still, when the first call was allowed for good."""
    agents = {name: AgentConfig(mode="all") for name in ("explore", "general")}  # else they get tasks
    coding = Config(data_dir=tmp_path / "data", agent=agents, **config)
    script = {"first": [list(first), [say("Ok.")]], "go": [list(then), [say("Done.")]]}
    async with open_stage(tmp_path / "data", script, coding=coding, directory=place.root) as at:
        await at.runtime.send(at.session_id, "first")
        asked = await at.listener.until(PermissionAsked)
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        tally = await tally_calls(at, len(then) + 1)  # the first one's end is still to be heard
        assert await at.abort()
    return list(tally.asks.values())


async def tally_calls(at: Stage, count: int, *, agent: str = "build") -> _Tally:
    """Say `go`, and wait until each of so many calls asks or has ended."""
    tally = _Tally(count)
    await at.runtime.send(at.session_id, "go", agent=agent)
    kinds: Any = PermissionAsked | PartUpdated
    await at.listener.until(kinds, tally.take_event)
    return tally


def shell_calls(commands: Sequence[str]) -> list[ScriptLine]:
    return [call("bash", command=command) for command in commands]


def describe_call(line: ScriptLine) -> str:
    """A call as a failing test shows it."""
    assert isinstance(line, CallTool)
    return f"{line.tool} {line.input}"


PATCH = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+../outside\n"
FILES = {
    "a.txt": "hello\nthere\n",
    "b.txt": "hello\nthere\n",
    "evil": "#!/bin/sh\ntouch pwned\n",
    "src/one.py": "",
    "src/x": "",
    "tree/y": "",
    "deep/er/k": "",
    "names/a.txt": "",
    "names/sub/k": "",
    "names/-exec": "",
    "names/--output=pwned": "",
    "names/-R": "",
    "-exec": "",
    "--output=pwned": "",
    "--checkpoint=1": "",
    "--checkpoint-action=exec=touch pwned": "",
    "--eval=x": "",
    "SHELL=evil": "",
    "if=secret-link": "",
    "l.patch": PATCH,
}


def plant_holes(tmp_path: Path) -> Yard:
    """Make the yard of the holes."""
    place = create_yard(tmp_path, FILES)
    (place.root / "evil").chmod(0o755)
    for name in FOLDERS:
        (place.root / fill_paths(name, place)).mkdir(parents=True, exist_ok=True)
    for name, target in {
        "link": str(place.outside),
        "secret-link": str(place.secret),
        "tree/x": str(place.secret),
        "deep/er/s": "../outside",
        "q": "deep/er",
        "via": "q/../../outside",
        "here": "/proc/self/cwd",
        "gone": "/bin/rm",
        "src/gone-too": "/bin/rm",
    }.items():
        (place.root / name).symlink_to(target)
    (place.root / "list").write_text("../outside/secret.txt\n")
    return place


def fill_paths(text: str, place: Yard) -> str:
    return text.replace("{out}", str(place.outside))
