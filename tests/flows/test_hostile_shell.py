"""Commands that mean to slip by the rules: each asks, and before that nothing has happened."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.llm.scripted import ScriptLine, call
from tests.support.hostile import hole
from tests.support.hostile.command import ALLOWED, BENIGN, HOLES, HOSTILE
from tests.support.hostile.daemon import DAEMONS, GHOST, daemon_command, survivors
from tests.support.hostile.yard import (
    CANARY,
    Yard,
    asks_after_always,
    create_yard,
    fill_paths,
    open_coder,
    plant_holes,
    run_calls,
    shell_calls,
)
from tests.support.wait import PATIENCE, wait_until

BY_PREFIX: dict[str, Any] = {"bash": {"*": "ask", **{f"{each} *": "allow" for each in ALLOWED}}}
EVERYTHING: dict[str, Any] = {"bash": "allow"}
EVIL = "#!/bin/sh\ntouch pwned\n"
FILES = {
    "a.txt": "hello\nthere\n",
    "b.txt": "hello\nthere\n",
    "src/one.py": "",
    "inner-files/deep/x": "",
    "evil": EVIL,
    "evil.sh": EVIL,
    "evil.awk": 'BEGIN{system("touch pwned")}\n',
    "evil.mk": "all:\n\ttouch pwned\n",
    "tree/y": "",
    "src/x": "",
    "Makefile": "all:\n\t@echo hi\n",
    "--checkpoint=1": "",
    "--checkpoint-action=exec=touch pwned": "",
}


def prepared(tmp_path: Path) -> Yard:
    place = create_yard(tmp_path, FILES)
    (place.root / "evil").chmod(0o755)
    (place.root / "link").symlink_to(place.outside)
    (place.root / "secret-link").symlink_to(place.secret)
    (place.root / "inner").symlink_to("inner-files/deep")
    (place.root / "0").symlink_to(place.secret)
    (place.root / "tree" / "x").symlink_to(place.secret)
    (place.root / "list0").write_text("../outside/secret.txt\0")
    (place.root / "list").write_text("../outside/secret.txt\n")
    return place


def filled(commands: tuple[str, ...], place: Yard) -> list[str]:
    return [command.replace("{out}", str(place.outside)) for command in commands]


@pytest.mark.spec("A-04", "A-05")
def test_the_hostile_and_benign_commands_are_many_and_distinct() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60
    assert len(set(BENIGN)) == len(BENIGN) >= 15


@pytest.mark.spec("A-04", "A-05")
async def test_no_hostile_command_runs_by_a_rule_for_its_first_word(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    before = place.picture()
    commands = filled(HOSTILE, place)
    found = await run_calls(tmp_path, place, shell_calls(commands), permission=BY_PREFIX)
    assert [commands[number] for number in found.unasked] == []
    asked = [command for command, ask in zip(commands, found.asks, strict=True) if ask]
    refused = [command for command, end in zip(commands, found.states, strict=True) if end]
    assert {ask.permission for ask in found.asks if ask} == {"bash", "external_directory"}
    assert all(
        ask.metadata["command"] == command for ask, command in zip(found.asks, commands, strict=True) if ask
    )
    assert len(asked) + len(refused) == len(commands)
    assert refused == [""]
    assert place.picture() == before
    assert CANARY not in found.text


@pytest.mark.spec("A-04", "A-05")
async def test_benign_commands_run_unasked_by_the_same_rules(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    found = await run_calls(tmp_path, place, shell_calls(BENIGN), permission=BY_PREFIX)
    assert [BENIGN[number] for number, ask in enumerate(found.asks) if ask] == []
    assert found.unasked == list(range(len(BENIGN)))
    assert not (place.root / "pwned").exists()


@pytest.mark.spec("A-04", "A-05")
async def test_an_unclear_command_asks_although_every_command_is_allowed(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    before = place.picture()
    hidden = "$( ` > >( <( $(( ${ trap eval alias ls() exec source bash sh env unbalanced -exec -c "
    commands = [
        command
        for command in filled(HOSTILE, place)
        if any(mark in command for mark in hidden.split()) and not command.startswith(("python3", "perl"))
    ]
    assert len(commands) >= 60
    found = await run_calls(tmp_path, place, shell_calls(commands), permission=EVERYTHING)
    assert [commands[number] for number in found.unasked] == []
    assert place.picture() == before


@pytest.mark.spec("A-04", "A-05")
async def test_a_command_that_starts_outside_asks_and_one_that_starts_nowhere_is_refused(
    tmp_path: Path,
) -> None:
    place = prepared(tmp_path)
    starts = ["..", "../outside", "link", str(place.outside), "/", "inner/../..", "missing", "a.txt", "a\0b"]
    calls = [call("bash", command="ls", workdir=each) for each in [*starts, "src", "inner", "./src/.."]]
    found = await run_calls(tmp_path, place, calls, permission=EVERYTHING)
    assert [ask.permission for ask in found.asks if ask] == ["external_directory"] * 5
    assert [calls[number].input["workdir"] for number in found.unasked if number < len(starts)] == [  # type: ignore[union-attr]
        "inner/../.."  # for a process, unlike for cd, that is the project itself
    ]
    assert found.unasked[-3:] == [len(starts), len(starts) + 1, len(starts) + 2]


@pytest.mark.spec("A-01", "A-04")
async def test_under_plan_every_command_asks_and_none_may_edit(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    before = place.picture()
    commands = [*BENIGN, *filled(HOSTILE, place)]
    found = await run_calls(tmp_path, place, shell_calls(commands), agent="plan", permission=EVERYTHING)
    assert [commands[number] for number in found.unasked] == []
    assert [command for command, end in zip(commands, found.states, strict=True) if end] == [""]
    assert place.picture() == before


@pytest.mark.spec("A-01", "A-04")
@pytest.mark.parametrize("agent", ["plan", "explore", "general"])
async def test_an_agent_that_may_not_edit_cannot_edit_by_any_tool(tmp_path: Path, agent: str) -> None:
    place = prepared(tmp_path)
    before = place.picture()
    calls = [
        call("read", filePath="a.txt"),
        call("write", filePath="new.txt", content="x"),
        call("edit", filePath="a.txt", oldString="hello", newString="bye"),
        call("patch", patchText="*** Begin Patch\n*** Add File: new.txt\n+x\n*** End Patch"),
        call("patch", patchText="*** Begin Patch\n*** Delete File: a.txt\n*** End Patch"),
    ]
    found = await run_calls(tmp_path, place, calls, agent=agent, permission={"edit": "allow"})
    assert found.unasked == [0]
    assert all(isinstance(state, ToolFailed) for state in found.states[1:])
    assert place.picture() == before


@pytest.mark.spec("A-04", "A-05")
async def test_commands_that_were_once_a_hole_ask(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    commands = filled(tuple(HOLES.values()), place)
    before = place.picture()
    found = await run_calls(tmp_path, place, shell_calls(commands), permission=BY_PREFIX)
    assert [list(HOLES)[number] for number in found.unasked] == []
    assert place.picture() == before
    assert CANARY not in found.text


@pytest.mark.spec("A-04", "A-05")
async def test_commands_of_an_attack_ask_although_every_command_is_allowed(tmp_path: Path) -> None:
    place = plant_holes(tmp_path)
    holes = hole.HOLES
    calls = [
        call("bash", command=fill_paths(hole.command, place), workdir=fill_paths(hole.workdir, place) or ".")
        for hole in holes
    ]
    before = place.picture()
    found = await run_calls(tmp_path, place, calls, permission=EVERYTHING)
    assert [holes[number] for number in found.unasked] == []
    assert all(found.asks)
    assert place.picture() == before
    assert CANARY not in found.text


@pytest.mark.spec("A-04", "A-05")
async def test_a_denied_program_runs_by_no_spelling_and_behind_no_wrapper(tmp_path: Path) -> None:
    place = plant_holes(tmp_path)
    before = place.picture()
    rules = {
        "bash": {"*": "allow", "rm *": "deny"},
        "unclear_command": "allow",
        "external_directory": "allow",
    }
    found = await run_calls(tmp_path, place, shell_calls(hole.DENIED), permission=rules)
    ran = [
        command
        for command, state in zip(hole.DENIED, found.states, strict=True)
        if not isinstance(state, ToolFailed)
    ]
    assert ran == []
    assert place.picture() == before


@pytest.mark.spec("A-04")
@pytest.mark.parametrize(
    ("yes", "other"),
    [
        ("git status", "git push"),
        ("npm run test", "npm publish"),
        *(
            pair
            for pair in (
                ("python3 -m unittest", 'python3 -c \'open("pwned", "w")\''),
                ("node build.js", "node -e 'x'"),
                ("perl a.pl", "perl -e 1"),
            )
        ),
    ],
)
async def test_always_for_one_command_is_not_for_a_very_different_one(
    tmp_path: Path, yes: str, other: str
) -> None:
    place = prepared(tmp_path)
    asks = await asks_after_always(
        tmp_path, place, shell_calls([yes]), shell_calls([other]), permission={"bash": "ask"}
    )
    assert [ask.metadata["command"] for ask in asks] == [other]


def test_the_canary_is_where_a_shell_would_find_it(tmp_path: Path) -> None:
    """Else the tests above could not fail."""
    place = prepared(tmp_path)
    assert (place.root / "link" / "secret.txt").read_text() == f"{CANARY}\n"


FREE: dict[str, Any] = {"bash": "allow", "unclear_command": "allow", "external_directory": "allow"}


def left_behind(
    tmp_path: Path, daemons: Mapping[str, str], then: str, **more: Any
) -> tuple[str, list[ScriptLine]]:
    """A call for each; the token by which all that they start can be known."""
    token = f"token-{tmp_path.name}-{os.getpid()}"
    lines = [
        call(
            "bash", command=daemon_command(each, up=tmp_path / f"up{number}", token=token, then=then), **more
        )
        for number, each in enumerate(daemons.values())
    ]
    return token, lines


def kill_all(token: str) -> list[str]:
    """What a failing test leaves must not outlive it; says what there was."""
    left = survivors(token)
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(int(each.partition(" ")[0]), signal.SIGKILL)
    return left


async def until_all_run(tmp_path: Path, count: int) -> None:
    """A process of its own makes each file."""
    await wait_until(lambda: all((tmp_path / f"up{number}").exists() for number in range(count)))


@pytest.mark.spec("A-05")
async def test_no_process_of_a_command_survives_an_abort(tmp_path: Path) -> None:
    place = prepared(tmp_path)
    token, lines = left_behind(tmp_path, DAEMONS, "sleep 600")
    async with open_coder(tmp_path, place, lines, permission=FREE) as at:
        await at.runtime.send(at.session_id, "go")
        await until_all_run(tmp_path, len(lines))
        assert len(survivors(token)) >= len(lines)
        assert await at.runtime.abort(at.session_id, seconds=PATIENCE)
        assert kill_all(token) == []


@pytest.mark.spec("A-05")
@pytest.mark.parametrize("then", ["sleep 600", "exit 0"], ids=["its time is up", "its command has ended"])
async def test_no_process_of_a_command_survives_the_end_of_its_call(tmp_path: Path, then: str) -> None:
    place = prepared(tmp_path)
    token, lines = left_behind(tmp_path, DAEMONS, then, timeout=4000)
    async with open_coder(tmp_path, place, lines, permission=FREE) as at:
        await at.prompt("go")
        assert kill_all(token) == []
        states = await at.states()
    assert all(isinstance(state, ToolCompleted) for state in states)
    await until_all_run(tmp_path, len(lines))


@pytest.mark.spec("A-05")
@pytest.mark.parametrize(
    "then", ["sleep 600", "exit 0", "kill -9 $PPID; sleep 600", "kill -STOP $PPID; exit 0"]
)
async def test_a_fully_detached_process_does_not_survive_the_end_of_its_call(
    tmp_path: Path, then: str
) -> None:
    place = prepared(tmp_path)
    token, lines = left_behind(tmp_path, {"a ghost": GHOST}, then, timeout=1500)
    async with open_coder(tmp_path, place, lines, permission=FREE) as at:
        await at.prompt("go")
        assert kill_all(token) == []
    await until_all_run(tmp_path, len(lines))
