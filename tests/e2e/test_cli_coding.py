"""A coding agent in a git repository: every permission is answered at the terminal, and it may be killed."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.process.command_line import Desk, Terminal, open_desk, open_terminal
from tests.support.soak import some_of

MAY_I = "[?] more > "
RULES = {"edit": "ask", "bash": "ask"}
TEST = "#!/bin/sh\ngrep -q 'a + b' calc.py && grep -q add README && echo passed || { echo broken; exit 1; }\n"


def todos(*states: str) -> ToolUse:
    names = ("change three files", "run the tests")
    items = [{"content": name, "status": state} for name, state in zip(names, states, strict=True)]
    return ToolUse("todowrite", {"todos": items})


def change(name: str, old: str, new: str) -> ToolUse:
    return ToolUse("edit", {"filePath": name, "oldString": old, "newString": new})


def read(name: str) -> ToolUse:
    return ToolUse("read", {"filePath": name})


def step(*calls: ToolUse) -> Reply:
    return Reply(text="", tools=calls)


SCRIPT: Script = {
    "Fix add": [
        step(todos("in_progress", "pending"), read("calc.py"), read("README"), read("NEWS")),
        step(change("calc.py", "a - b", "a * b")),
        step(change("README", "sub", "add")),
        step(change("NEWS", "none", "fixed")),
        step(ToolUse("bash", {"command": "./check"})),
        step(change("calc.py", "a * b", "a + b")),
        step(ToolUse("bash", {"command": "./check"})),
        step(todos("completed", "completed")),
        Reply(text="Fixed."),
    ]
}
ASKS = 6
WANTED = {"calc.py": "def add(a, b):\n    return a + b\n", "README": "It can add.\n", "NEWS": "fixed\n"}


def repository(desk: Desk) -> None:
    desk.configure(permission=RULES)
    subprocess.run(["git", "init", "-q", str(desk.project)], check=True)
    before = {"calc.py": "def add(a, b):\n    return a - b\n", "README": "It can sub.\n", "NEWS": "none\n"}
    for name, text in before.items():
        (desk.project / name).write_text(text)
    (desk.project / "check").write_text(TEST)
    (desk.project / "check").chmod(0o755)


def written(desk: Desk) -> dict[str, str]:
    return {name: (desk.project / name).read_text() for name in WANTED}


async def answer(terminal: Terminal, count: int) -> None:
    for _ in range(count):
        await terminal.answer("y", to=MAY_I)


def calls(messages: Any) -> list[str]:
    """The tools that the session called, each with how it ended."""
    parts = [part for entry in messages for part in entry["parts"] if part["type"] == "tool"]
    return [f"{part['tool']} {part['state']['status']}" for part in parts]


EDIT, RUN, PLAN = "edit completed", "bash completed", "todowrite completed"
CALLS = [PLAN, *["read completed"] * 3, EDIT, EDIT, EDIT, RUN, EDIT, RUN, PLAN]


@pytest.mark.spec("X-06", "A-04", "A-05", "O-01")
async def test_a_session_plans_edits_tests_and_fixes_with_every_permission_answered(tmp_path: Path) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        repository(desk)
        async with open_terminal(desk, "run", "Fix add", env={"NO_COLOR": "1"}, started=True) as terminal:
            await answer(terminal, ASKS)
            code = await terminal.end()
        shown = await desk.run("show", "--json")
        files = written(desk)

    said = terminal.text
    assert code == 0
    assert files == WANTED
    assert said.count(" asks for the permission ") == ASKS
    assert calls(json.loads(shown.out)) == CALLS
    told = [
        "todos, 0 of 2 done:\n  [>] change three files\n  [ ] run the tests\n",
        "  -    return a - b\n  +    return a * b\n",
        "  $ ./check\n",
        "bash: ./check -> exit 1\n",
        "bash: ./check -> exit 0\n",
        "todos, 2 of 2 done:\n",
        "Fixed.\n",
    ]
    places = [said.index(text) for text in told]
    assert places == sorted(places)
    assert "read calc.py, 2 lines\n" in said
    assert "  broken\n" in said


@pytest.mark.spec("C-01", "A-04", "X-06")
@pytest.mark.parametrize("answered", some_of(range(ASKS), 2))
async def test_a_session_killed_between_any_two_answers_ends_the_same_way(
    tmp_path: Path, answered: int
) -> None:
    async with open_desk(tmp_path, SCRIPT) as (desk, _):
        repository(desk)
        async with open_terminal(desk, "run", "Fix add", started=True) as terminal:
            await answer(terminal, answered)
            await terminal.answer("", to=MAY_I)  # the next question is there
            terminal.process.send_signal(signal.SIGKILL)
            await terminal.end()
        async with open_terminal(desk, "run", "--continue", started=True) as terminal:
            await answer(terminal, ASKS - answered)
            code = await terminal.end()
        shown = await desk.run("show", "--json")
        files = written(desk)

    assert code == 0
    assert files == WANTED
    assert calls(json.loads(shown.out)) == CALLS
    assert terminal.text.rstrip().splitlines()[-2] == "Fixed."
