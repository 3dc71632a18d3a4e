"""A long command, an ask and an async call in one step: none waits for another, and a crash loses none."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path

import pytest

from asyncagents.domain.call.call import IN_DOUBT, Open
from asyncagents.domain.conversation.part import ToolCompleted, ToolPart, ToolRunning
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import PartUpdated, PermissionAsked
from asyncagents.engine import dispatcher
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.inside import inside
from tests.support.hostile.batch import DEPLOY, SCRIPT, open_batch_runtime
from tests.support.hostile.yard import create_yard
from tests.support.runtime import EventListener, Stage, open_runtime, open_stage
from tests.support.wait import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]
ACTS = ("write", "deploy", "bash")


async def act(at: Stage, what: str, root: Path) -> None:
    """End one of the three calls, and wait until it has ended."""
    calls = {each.tool: each for each in await at.runtime.open_calls(at.session_id)}
    match what:
        case "write":
            (waiting,) = await at.runtime.asks(at.session_id)
            assert isinstance(waiting.call.state, Open)
            assert waiting.call.state.ask is not None
            await at.runtime.answer(waiting.call.state.ask.id, "once")
        case "deploy":
            await at.runtime.complete(calls["deploy"].id, "v2")
        case _:
            os.close(os.open(root / "go", os.O_CREAT))
    await at.listener.until(
        PartUpdated,
        lambda event: (
            isinstance(event.part, ToolPart)
            and event.part.tool == what
            and isinstance(event.part.state, ToolCompleted)
        ),
    )


async def until_all_are_under_way(at: Stage, root: Path) -> None:
    """The command runs, the ask is open, and so is the async call."""

    async def are() -> bool:
        return (root / "runs").exists() and len(await at.runtime.open_calls(at.session_id)) == 2

    await wait_until(are)  # a process of its own makes the file


def told(model: ScriptedModel) -> list[str]:
    return [each.output for each in model.requests[-1].messages if isinstance(each, ToolTurn)]


@pytest.mark.spec("A-05", "C-05")
@pytest.mark.parametrize("order", list(permutations(ACTS)), ids="-".join)
async def test_a_command_an_ask_and_an_async_call_do_not_wait_for_each_other(
    tmp_path: Path, order: Sequence[str]
) -> None:
    root = create_yard(tmp_path).root
    data = tmp_path / "data"
    async with open_stage(
        data, SCRIPT, tools=[DEPLOY], coding=open_batch_runtime(data), directory=root
    ) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until(PermissionAsked)
        await until_all_are_under_way(at, root)
        assert not (root / "asked.txt").exists()
        for number, what in enumerate(order):
            await act(at, what, root)
            ended = [state for state in await at.states() if isinstance(state, ToolCompleted)]
            assert len(ended) == number + 1
            assert len(at.model.requests) == 1 or number == 2
            assert (root / "asked.txt").exists() == ("write" in order[: number + 1])
        async with asyncio.timeout(PATIENCE):
            assert await at.runtime.wait(at.session_id) == Idle()
        assert (await at.messages())[-1].text == "All done."
    assert [output.split(" ")[0] for output in told(at.model)][::2] == ["ended", "v2"]
    assert (root / "runs").read_text() == "x\n"


@pytest.mark.spec("A-05", "C-05")
async def test_an_abort_ends_a_command_an_ask_and_an_async_call(tmp_path: Path) -> None:
    root = create_yard(tmp_path).root
    data = tmp_path / "data"
    async with open_stage(
        data, SCRIPT, tools=[DEPLOY], coding=open_batch_runtime(data), directory=root
    ) as at:
        await at.runtime.send(at.session_id, "go")
        await until_all_are_under_way(at, root)
        assert await at.abort()
        assert await at.runtime.asks() == ()
        assert await at.runtime.open_calls(at.session_id) == ()
        assert await at.status() == Idle()
    assert not (root / "asked.txt").exists()


@asynccontextmanager
async def a_worker(data: Path, said: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that serves the directory; it is killed, not closed."""
    with said.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.hostile.batch", str(data)),
            cwd=ROOT,
            stdin=PIPE,
            stderr=errors,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def a_witness(data: Path, root: Path) -> AsyncIterator[Stage]:
    """Looks and answers, and does not work itself."""
    model = ScriptedModel(SCRIPT)
    async with open_runtime(
        data, model=model, tools=[DEPLOY], coding=open_batch_runtime(data), serve=False
    ) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=root)
            yield Stage(runtime, session.id, model, EventListener(subscription))


@pytest.mark.spec("X-11", "A-04", "A-05")
@pytest.mark.parametrize(
    "before", [(), ("write",), ("deploy",), ("write", "deploy"), ("bash",), ("bash", "write")], ids=str
)
async def test_a_step_with_mixed_calls_recovers_from_a_crash_at_any_point(
    tmp_path: Path, before: tuple[str, ...]
) -> None:
    root, data = create_yard(tmp_path).root, tmp_path / "data"
    data.mkdir()
    async with a_witness(data, root) as at:
        async with a_worker(data, tmp_path / "said"):
            await at.runtime.send(at.session_id, "go")
            await until_all_are_under_way(at, root)
            for what in before:
                await act(at, what, root)
        session_id = at.session_id
    assert (tmp_path / "said").read_text() == ""
    model = ScriptedModel(SCRIPT)
    async with open_runtime(data, model=model, tools=[DEPLOY], coding=open_batch_runtime(data)) as runtime:
        with inside(runtime).bus.subscribe() as subscription:
            again = Stage(runtime, session_id, model, EventListener(subscription))
            await recovered(again, before, root)
    (root / "go").touch()  # the command of the dead process ends too
    bash, write, deploy = told(model)
    assert bash == ("ended" if "bash" in before else IN_DOUBT)
    assert (root / "asked.txt").read_text() == "approved"
    assert "asked.txt" in write
    assert deploy == "v2"
    assert (root / "runs").read_text() == "x\n"


@pytest.mark.spec("X-11")
async def test_a_serving_runtime_takes_over_a_session_when_the_process_that_ran_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sweep found that process alive, and no other sweep would come in time."""
    monkeypatch.setattr(dispatcher, "SWEEP_MS", 3_600_000)
    root, data = create_yard(tmp_path).root, tmp_path / "data"
    data.mkdir()
    async with a_witness(data, root) as at, a_worker(data, tmp_path / "said") as worker:
        await at.runtime.send(at.session_id, "go")
        await until_all_are_under_way(at, root)
        model = ScriptedModel(SCRIPT)
        async with open_runtime(
            data, model=model, tools=[DEPLOY], coding=open_batch_runtime(data)
        ) as runtime:
            await inside(runtime).dispatcher.sweep()
            worker.kill()
            await worker.wait()
            with inside(runtime).bus.subscribe() as subscription:
                again = Stage(runtime, at.session_id, model, EventListener(subscription))
                await recovered(again, (), root)
    (root / "go").touch()  # the command of the dead process ends too
    assert told(model)[0] == IN_DOUBT


async def recovered(at: Stage, before: tuple[str, ...], root: Path) -> None:
    """What was open is open still, and takes its answer; then the turn ends."""
    left = [what for what in ("write", "deploy") if what not in before]
    assert len(await at.runtime.asks(at.session_id)) == ("write" in left)
    for what in left:
        await act(at, what, root)
    async with asyncio.timeout(PATIENCE):
        assert await at.runtime.wait(at.session_id) == Idle()
    assert (await at.messages())[-1].text == "All done."
    assert not [state for state in await at.states() if isinstance(state, ToolRunning)]


def working_in(root: Path) -> list[str]:
    """The processes whose working folder is the project."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and os.readlink(each / "cwd") == str(root):
                found.append(each.name)
        except OSError:
            continue  # it has just ended, or is another user's
    return found


@pytest.mark.spec("X-11", "A-05")
async def test_a_command_does_not_outlive_a_runtime_that_was_killed(tmp_path: Path) -> None:
    root, data = create_yard(tmp_path).root, tmp_path / "data"
    data.mkdir()
    async with a_witness(data, root) as at, a_worker(data, tmp_path / "said") as worker:
        await at.runtime.send(at.session_id, "go")
        await until_all_are_under_way(at, root)
        assert working_in(root)
        worker.kill()
        await worker.wait()
        try:
            await wait_until(lambda: not working_in(root))  # no event tells that a stranger's process ends
        finally:
            os.close(os.open(root / "go", os.O_CREAT))
