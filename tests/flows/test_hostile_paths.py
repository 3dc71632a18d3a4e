"""Paths that mean to lead out of the project: nothing outside is read or changed unasked."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.scripted import ScriptLine, call
from tests.support.hostile.path import TRAPS, Lies
from tests.support.hostile.yard import (
    CANARY,
    CallReport,
    Yard,
    asks_after_always,
    create_yard,
    describe_call,
    open_coder,
    run_calls,
    tally_calls,
)
from tests.support.wait import PATIENCE

FILES = {"a.txt": "hello\n", "src/one.py": "pass\n", "src/two.py": "pass\n"}


def calls_on(path: str) -> list[ScriptLine]:
    """Every file tool, with this path."""
    add = f"*** Begin Patch\n*** Add File: {path}\n+pwned\n*** End Patch"
    update = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{CANARY}\n+pwned\n*** End Patch"
    move = f"*** Begin Patch\n*** Update File: a.txt\n*** Move to: {path}\n@@\n-hello\n+pwned\n*** End Patch"
    delete = f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"
    return [
        call("read", filePath=path),
        call("list", path=path),
        call("glob", pattern="**/*", path=path),
        call("grep", pattern="CANARY|root|.", path=path),
        call("edit", filePath=path, oldString=CANARY, newString="pwned"),
        call("write", filePath=path, content="pwned"),
        call("patch", patchText=add),
        call("patch", patchText=update),
        call("patch", patchText=move),
        call("patch", patchText=delete),
    ]


# With no path at all these mean the working folder.
_FOLDER_IF_EMPTY = {"list", "glob", "grep"}


async def sprung(tmp_path: Path, lies: Lies) -> tuple[Yard, list[ScriptLine], CallReport, dict[str, str]]:
    """All traps of a kind, each for every tool, in one step; with what lay outside before."""
    place = create_yard(tmp_path, FILES)
    calls = [line for trap in TRAPS.values() if trap.lies == lies for line in calls_on(trap.path(place))]
    before = outside(place)
    found = await run_calls(tmp_path, place, calls)
    return place, calls, found, before


def outside(place: Yard) -> dict[str, str]:
    return {path: held for path, held in place.picture().items() if path.startswith(f"{place.outside}/")}


def test_there_are_at_least_forty_hostile_paths() -> None:
    assert len([trap for trap in TRAPS.values() if trap.lies != "odd"]) >= 40


@pytest.mark.spec("A-05")
async def test_a_path_out_of_the_project_asks_or_is_refused_by_every_tool(tmp_path: Path) -> None:
    place, calls, found, before = await sprung(tmp_path, "outside")
    assert [describe_call(calls[number]) for number in found.unasked] == []
    asks = [ask for ask in found.asks if ask]
    assert {ask.permission for ask in asks} == {"external_directory"}
    assert len(asks) > len(calls) // 2
    assert CANARY not in found.text
    assert outside(place) == before


@pytest.mark.spec("A-05")
async def test_a_path_that_leads_nowhere_is_refused_by_every_tool(tmp_path: Path) -> None:
    place, calls, found, before = await sprung(tmp_path, "nowhere")
    ran = [calls[number] for number in found.unasked]
    assert [describe_call(line) for line in ran if _named(line)] == []
    assert CANARY not in found.text
    assert outside(place) == before


def _named(line: ScriptLine) -> bool:
    return not (line.tool in _FOLDER_IF_EMPTY and line.input["path"] == "")  # type: ignore[union-attr]


@pytest.mark.spec("A-05")
async def test_a_path_that_only_looks_odd_works_unasked(tmp_path: Path) -> None:
    place, calls, found, before = await sprung(tmp_path, "odd")
    assert [ask for ask in found.asks if ask] == []
    assert any(line.tool == "write" for line in map(calls.__getitem__, found.unasked))  # type: ignore[union-attr]
    assert (place.root / "src" / "new.txt").read_text() == "pwned"
    assert (place.root / "%2e%2e" / "outside" / "secret.txt").read_text() == "pwned"
    assert outside(place) == before


@pytest.mark.spec("A-05")
async def test_a_search_from_the_top_does_not_go_through_links(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    for trap in TRAPS.values():
        trap.path(place)
    calls = [
        call("grep", pattern="CANARY"),
        call("grep", pattern=".", include="**/secret.txt"),
        call("glob", pattern="**/secret.txt"),
        call("glob", pattern="../outside/*"),
        call("glob", pattern=f"{place.outside}/*"),
        call("list"),
        call("read", filePath="."),
    ]
    found = await run_calls(tmp_path, place, calls)
    assert CANARY not in found.text
    told = [state.output for state in found.states[:5] if isinstance(state, ToolCompleted)]
    assert [line for output in told for line in output.splitlines() if line.endswith("secret.txt:")] == []
    assert isinstance(found.states[2], ToolCompleted)
    assert found.states[2].output.startswith("No file")


@pytest.mark.spec("A-05")
async def test_writing_to_a_hard_link_does_not_change_its_other_name(tmp_path: Path) -> None:
    """That another name lies outside cannot be seen; what is written goes to a file of its own."""
    place = create_yard(tmp_path, FILES)
    os.link(place.secret, place.root / "hard.txt")
    async with open_coder(
        tmp_path,
        place,
        [call("patch", patchText=_update("hard.txt", CANARY, "pwned"))],
    ) as at:
        await at.prompt("go")
    assert (place.root / "hard.txt").read_text() == "pwned\n"
    assert place.secret.read_text() == f"{CANARY}\n"


def _update(path: str, old: str, new: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"


@pytest.mark.spec("A-04", "A-05")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write", {"filePath": ".git/hooks/pre-commit", "content": "#!/bin/sh\ntouch pwned\n"}),
        ("write", {"filePath": ".git/config.worktree", "content": "[core]\n\tfsmonitor = touch pwned\n"}),
        (
            "patch",
            {"patchText": "*** Begin Patch\n*** Add File: .git/hooks/post-checkout\n+x\n*** End Patch"},
        ),
        ("patch", {"patchText": _update(".git/config", "[core]", "[core]\n+\tfsmonitor = touch pwned")}),
    ],
    ids=["a hook", "a new config", "a patched hook", "the config"],
)
async def test_files_that_git_would_run_are_not_written_unasked(
    tmp_path: Path, tool: str, arguments: dict[str, str]
) -> None:
    place = create_yard(tmp_path, FILES)
    before = place.picture()
    found = await run_calls(tmp_path, place, [call(tool, **arguments)])
    assert found.unasked == []
    assert place.picture() == before


@pytest.mark.spec("A-05")
async def test_git_does_not_obey_a_folder_that_looks_like_a_repository(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    for name in ("objects", "refs"):
        (place.root / "bare" / name).mkdir(parents=True)
    (place.root / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    config = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
    (place.root / "bare" / "config").write_text(f'{config}\tfsmonitor = "touch pwned; false"\n')
    found = await run_calls(tmp_path, place, [call("bash", command="git status", workdir="bare")])
    assert found.unasked == [0]
    assert not list(place.root.rglob("pwned"))


@pytest.mark.spec("A-04", "A-05")
@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", "asyncagents.json", ".asyncagents/agents/build.md"]
)
async def test_always_for_an_edit_does_not_cover_hooks_or_configuration(tmp_path: Path, path: str) -> None:
    place = create_yard(tmp_path, FILES)
    first, then = call("write", filePath="new.txt", content="x"), call("write", filePath=path, content="{}")
    asks = await asks_after_always(tmp_path, place, [first], [then], permission={"edit": "ask"})
    assert [ask.patterns for ask in asks] == [(path,)]


class Swapper(threading.Thread):
    """Makes a name now a folder of the project, now a link out of it, as fast as it can."""

    def __init__(self, place: Yard) -> None:
        super().__init__(daemon=True)
        self.rounds = 0
        self._root = place.root
        self._over = threading.Event()
        (self._root / "swap").mkdir()
        (self._root / "swap" / "secret.txt").write_text("harmless\n")
        (self._root / "spare").symlink_to(place.outside)

    def run(self) -> None:
        here, spare, held = (self._root / name for name in ("swap", "spare", "held"))
        while not self._over.is_set():
            with suppress(OSError):
                os.rename(here, held)
                os.rename(spare, here)
                os.rename(held, spare)
            self.rounds += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def swapping(place: Yard) -> Iterator[Swapper]:
    swapper = Swapper(place)
    swapper.start()
    try:
        yield swapper
    finally:
        swapper.stop()


def racing(count: int) -> list[ScriptLine]:
    """Every tool on the name that changes, in many different calls."""
    lines: list[ScriptLine] = []
    for number in range(count):
        add = f"*** Begin Patch\n*** Add File: swap/p{number}.txt\n+pwned\n*** End Patch"
        lines += [
            call("read", filePath="swap/secret.txt", limit=number + 1),
            call("write", filePath=f"swap/w{number}.txt", content="pwned"),
            call("patch", patchText=add),
            call("patch", patchText=_update("swap/secret.txt", "outer", f"pwned{number}")),
        ]
    for number in range(6):  # each is a process of its own
        lines += [
            call("list", path="swap", ignore=[f"x{number}"]),
            call("glob", pattern=f"{{*.txt,x{number}}}", path="swap"),
            call("grep", pattern=f"CANARY|x{number}"),
        ]
    return lines


@pytest.mark.spec("A-05")
async def test_a_folder_that_turns_into_a_link_during_a_call_does_not_lead_out(tmp_path: Path) -> None:
    place = create_yard(tmp_path, FILES)
    place.secret.write_text(f"{CANARY}\nouter\n")
    before = outside(place)
    lines = racing(75)
    with swapping(place) as swapper:
        async with asyncio.timeout(PATIENCE):
            found = await run_calls(tmp_path, place, lines)
    assert len(lines) >= 300
    assert swapper.rounds > len(lines)
    assert {type(state) for state in found.states if state} == {ToolCompleted, ToolFailed}
    assert {ask.permission for ask in found.asks if ask} <= {"external_directory"}
    assert CANARY not in found.text
    assert outside(place) == before


@pytest.mark.spec("A-04", "A-05")
async def test_an_approval_is_for_the_place_that_was_asked_about(tmp_path: Path) -> None:
    """Between the question and the answer the name comes to mean another place."""
    place = create_yard(tmp_path, FILES)
    first, other = place.outside / "first", place.outside / "other"
    for each in (first, other):
        each.mkdir()
    (first / "x.txt").write_text("fine\n")
    (other / "x.txt").write_text(f"{CANARY}\n")
    (place.root / "name").symlink_to(first)
    async with open_coder(tmp_path, place, [call("read", filePath="name/x.txt")]) as at:
        tally = await tally_calls(at, 1)
        (ask,) = tally.asks.values()
        assert ask.patterns == (f"{first}/*",)
        (place.root / "name").unlink()
        (place.root / "name").symlink_to(other)
        await at.runtime.answer(ask.id, "once")
        again = await at.listener.until(PermissionAsked)
        assert again.request.patterns == (f"{other}/*",)
        await at.runtime.answer(again.request.id, "reject")
        await at.runtime.wait(at.session_id)
        (state,) = await at.states()
    assert isinstance(state, ToolFailed)
