"""A whole coding session in processes of its own: planned, edited, tested, mended, killed between steps."""

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.domain.call.call import IN_DOUBT, Open, Running, Settled
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.id import CallId, SessionId
from asyncagents.testing.inside import inside
from tests.support.process.coding_worker import DONE, FILES, STEPS
from tests.support.process.command_line import PROCESS_PATIENCE
from tests.support.process.fork_server import ForkedProcess, ForkOrder, fork_process
from tests.support.wait import wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(sys.executable).with_name("asyncagents"))
# The tests of the project are run by the Python that runs these.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


class Scene:
    """A git repository, a data directory, one worker at a time, and a runtime that only looks and answers."""

    def __init__(self, directory: Path, runtime: Runtime) -> None:
        self.root = directory / "project"
        self.data = directory / "data"
        self.mark = directory / "mark"
        self.said = directory / "said"
        self.runtime = runtime
        self._worker: ForkedProcess | None = None
        self._line = -1
        """Who is at its other end lives as long as we do."""
        self.answered: list[str] = []
        self.last = CallId("")
        self.kills = 0

    async def start(self, step: int = -1) -> None:
        words = (str(self.data), str(step), str(self.mark))
        order = ForkOrder(
            words=words, cwd=str(ROOT), env=ENVIRONMENT, module="tests.support.process.coding_worker"
        )
        its_line, self._line = os.pipe()
        with self.said.open("ab") as errors:
            self._worker = await fork_process(order, its_line, errors.fileno(), errors.fileno())
        os.close(its_line)

    async def kill(self) -> None:
        if self._worker is not None:
            self._worker.send_signal(signal.SIGKILL)
            await self._worker.wait()
            os.close(self._line)
            self._worker = None
            self.kills += 1

    async def attend(self, over: Callable[[], Awaitable[bool]]) -> None:
        """Say yes to whatever asks until it is over."""

        async def is_over() -> bool:
            if await over():
                return True
            for waiting in await self.runtime.asks():
                self.answered.append(waiting.call.tool)
                self.last = waiting.call.id
                await self.runtime.answer(ask_id(waiting), "once")
            return False

        await wait_until(is_over, seconds=PROCESS_PATIENCE)

    async def rests(self, session_id: SessionId) -> bool:
        return await self.runtime.status(session_id) == Idle()

    async def has_begun(self) -> bool:
        """Whether a worker has taken up the call that was answered last."""
        return isinstance((await inside(self.runtime).store.call(self.last)).state, Running | Settled)

    async def states(self, session_id: SessionId, tool: str) -> list[object]:
        entries = await self.runtime.messages(session_id)
        parts = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
        return [part.state for part in parts if part.tool == tool]


def ask_id(waiting: WaitingCall) -> str:
    assert isinstance(waiting.call.state, Open)
    assert waiting.call.state.ask is not None
    return waiting.call.state.ask.id


def repository(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in FILES.items():
        (root / name).write_text(text)


@asynccontextmanager
async def a_scene(directory: Path) -> AsyncIterator[Scene]:
    repository(directory / "project")
    async with open_runtime(directory / "data", model=ScriptedModel({}), serve=False) as runtime:
        scene = Scene(directory, runtime)
        try:
            yield scene
        finally:
            await scene.kill()
    assert scene.said.read_text() == ""


async def played(scene: Scene, session_id: SessionId, prompt: str) -> None:
    """One prompt to its end; if the worker comes to stand still, it is killed and another goes on."""

    async def over() -> bool:
        if scene.mark.exists():
            scene.mark.unlink()
            await scene.kill()
            await scene.start()
        return await scene.rests(session_id)

    await scene.runtime.send(session_id, prompt, agent=prompt)
    await scene.attend(over)


def on_disk(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.iterdir() if path.is_file()}


@pytest.mark.spec("A-01", "A-04", "A-05", "X-11")
@pytest.mark.parametrize("step", range(-1, STEPS))
async def test_a_session_killed_between_any_two_steps_ends_as_one_that_was_not(
    tmp_path: Path, step: int
) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.start(step)
        session = await scene.runtime.create_session(directory=scene.root)
        await played(scene, session.id, "plan")
        assert on_disk(scene.root) == FILES
        await played(scene, session.id, "build")
        runs = await scene.states(session.id, "bash")
        last = (await scene.runtime.messages(session.id))[-1]
        assert scene.kills == (step >= 0)
        assert [todo.status for todo in await scene.runtime.todos(session.id)] == ["completed"]
    assert last.text == "All tests pass."
    assert on_disk(scene.root) == DONE
    assert all(isinstance(run, ToolCompleted) for run in runs)
    exits = [run.metadata["exit"] for run in runs if isinstance(run, ToolCompleted)]
    assert exits == [0, 1, 0]
    assert scene.answered == ["bash", "edit", "edit", "write", "bash", "edit", "bash"]


@pytest.mark.spec("A-04", "A-05", "X-11")
@pytest.mark.parametrize("begun", [False, True], ids=["at once", "begun"])
@pytest.mark.parametrize("number", [1, 4, 5])
async def test_a_session_killed_after_an_answer_does_nothing_twice(
    tmp_path: Path, number: int, begun: bool
) -> None:
    """What ran then is found out, or told as in doubt; what did not run yet runs."""
    async with a_scene(tmp_path) as scene:
        await scene.start()
        session = await scene.runtime.create_session(directory=scene.root)

        async def over() -> bool:
            if len(scene.answered) == number + 1 and not scene.kills:
                if begun:  # the worker has heard of the answer
                    await wait_until(scene.has_begun, pause=0.001)
                await scene.kill()
                await scene.start()
            return await scene.rests(session.id)

        for prompt in ("plan", "build"):
            await scene.runtime.send(session.id, prompt, agent=prompt)
            await scene.attend(over)
        states = [
            state for tool in ("bash", "edit", "write") for state in await scene.states(session.id, tool)
        ]
    failed = [state.error for state in states if isinstance(state, ToolFailed)]
    cut = [error for error in failed if IN_DOUBT in error or "The process stopped before" in error]
    assert len(states) == len(scene.answered) == 7
    assert len(cut) <= 1
    assert cut or not failed
    assert failed or on_disk(scene.root) == DONE


async def command(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(PROGRAM, *words, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.spec("A-04", "X-11")
async def test_an_ask_two_levels_down_outlives_its_process_and_is_answered_from_another(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.start()
        root = await scene.runtime.create_session(directory=scene.root)
        child = await scene.runtime.create_session(parent_id=root.id, directory=scene.root)
        grandchild = await scene.runtime.create_session(parent_id=child.id, directory=scene.root)
        await scene.runtime.send(grandchild.id, "child")
        (waiting,) = await wait_until(lambda: scene.runtime.asks(root.id), seconds=PROCESS_PATIENCE)
        await scene.kill()
        listed = await command("asks", "--session", root.id, "--json", "--data-dir", str(scene.data))
        await command("answer", ask_id(waiting), "once", "--detach", "--data-dir", str(scene.data))
        assert await scene.runtime.asks() == ()
        assert not (scene.root / "child.txt").exists()
        await scene.start()
        await scene.attend(lambda: scene.rests(grandchild.id))
    assert [each.id for each in waiting.lineage] == [root.id, child.id, grandchild.id]
    assert ask_id(waiting) in listed
    assert (scene.root / "child.txt").read_text() == "from below"
    assert scene.answered == []
