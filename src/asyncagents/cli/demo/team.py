"""The demo's acts about tasks: in sequence, in parallel, and through a kill -9."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.checks import History, state_of
from asyncagents.cli.demo.child import STEADY, STUCK, child
from asyncagents.cli.demo.crew import (
    AGAIN,
    AT_ONCE,
    ONE_BY_ONE,
    QUICK,
    STOCK,
    SUM,
    Counter,
    allow,
    answer,
    title,
)
from asyncagents.cli.demo.ledger import Effect, Ledger
from asyncagents.cli.demo.scene import LOOK_SECONDS
from asyncagents.cli.demo.screen import Screen
from asyncagents.cli.demo.shop import scripted
from asyncagents.cli.inspect.task_tree import Node, tree
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart, ToolCompleted
from asyncagents.domain.conversation.status import Busy
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.runtime.runtime import Runtime


class Team(Struct, frozen=True):
    """An orchestrator's history, and its tasks."""

    history: History
    tasks: tuple[BackgroundTask, ...]

    @property
    def said(self) -> str:
        return self.history[-1].text

    def by_title(self, thing: str) -> BackgroundTask:
        [task] = [task for task in self.tasks if task.description == title(thing)]
        return task


async def team(runtime: Runtime, root_id: SessionId) -> Team:
    return Team(await runtime.messages(root_id), await runtime.tasks.list(root_id))


def check_same(screen: Screen, slow: Team, fast: Team) -> None:
    results = [{task.description: task.result for task in each.tasks} for each in (slow, fast)]
    wanted = {title(thing): answer(thing) for thing in STOCK}
    screen.check(
        "Both did the same work: five tasks each, with the same five results, and the same answer.",
        holds=results == [wanted, wanted] and slow.said == fast.said == SUM,
        seen=(results, slow.said, fast.said),
    )


def check_told(screen: Screen, found: Team) -> None:
    """Check that the orchestrator's model reads one notice for each task."""
    told = [
        part.text
        for entry in found.history
        if isinstance(entry.info, UserMessage)
        for part in entry.parts
        if isinstance(part, TextPart) and part.synthetic
    ]
    times = [sum(text.count(f"Task {task.session_id} ") for text in told) for task in found.tasks]
    screen.check(
        "The orchestrator got exactly one notice for each of the five tasks.",
        holds=times == [1] * len(STOCK),
        seen=(times, told),
    )


def check_as_before(screen: Screen, before: Team, after: Team) -> None:
    kept = [(before.by_title(thing), after.by_title(thing)) for thing in QUICK]
    same = [(old.status, old.completed_at, old.result) for old, _ in kept] == [
        (new.status, new.completed_at, new.result) for _, new in kept
    ]
    results = {task.description: (task.status, task.result) for task in after.tasks}
    wanted = {title(thing): ("completed", answer(thing)) for thing in STOCK}
    screen.check(
        "What had ended stayed as it was; the three that were cut off went on, and all have their result.",
        holds=same and results == wanted and after.said == SUM,
        seen=(kept, results, after.said),
    )


def check_counted(screen: Screen, runs: Sequence[Effect], pid: int) -> None:
    """Check that the ledger has each count once, all by the killed process."""
    screen.check(
        "Nothing was run twice: five counts in the world outside, all by the process that was killed.",
        holds=len(runs) == len({run.key for run in runs}) == len(STOCK)
        and {run.pid for run in runs} == {pid},
        seen=runs,
    )


class Worked(Struct, frozen=True):
    team: Team
    seconds: float


async def act_team(data: Path, screen: Screen) -> None:
    screen.head(
        "5. Five agents at once",
        "An agent can launch others. Here five helpers count things: first one after the other, each in a "
        "call that the orchestrator waits for; then at once, while it rests until notices wake it.",
    )
    tools = [Counter(Ledger(data)).tool()]
    async with open_runtime(
        data, model=scripted(word_seconds=0), tools=tools, policy=allow, delegation=True
    ) as runtime:
        slow = await _work(screen, runtime, ONE_BY_ONE)
        fast = await _work(screen, runtime, AT_ONCE)
    check_same(screen, slow.team, fast.team)
    check_told(screen, fast.team)
    screen.check(
        f"One after the other took {slow.seconds:.1f} s, at once {fast.seconds:.1f} s: "
        f"{slow.seconds / fast.seconds:.1f} times as fast.",
        holds=fast.seconds < slow.seconds,
        seen=(slow.seconds, fast.seconds),
    )


async def _work(screen: Screen, runtime: Runtime, prompt: str) -> Worked:
    """Send a prompt and show the tree until the orchestrator and all helpers rest."""
    session = await runtime.create_session(title=prompt)
    screen.line("you", prompt)
    began = asyncio.get_running_loop().time()
    await runtime.send(session.id, prompt)
    with screen.tree(_all_at_work) as see:
        while await runtime.at_work(session.id):
            see(await _tree(runtime, session.id))
            await asyncio.sleep(LOOK_SECONDS)
        seconds = asyncio.get_running_loop().time() - began
        see(await _tree(runtime, session.id))
    found = await team(runtime, session.id)
    screen.line("agent", found.said)
    return Worked(found, seconds)


async def _tree(runtime: Runtime, root_id: SessionId) -> Node:
    return await tree(runtime, await runtime.session(root_id))


def _all_at_work(node: Node) -> bool:
    return [each.state for each in node.below] == ["streaming"] * len(STOCK)


async def act_team_crash(data: Path, screen: Screen) -> None:
    async with open_runtime(data, model=scripted(), serve=False) as runtime:
        session = await runtime.create_session(title=AGAIN)
        ledger = Ledger(data)
        counted = len(ledger.of("count"))
        before, pid = await _until_killed(data, screen, runtime, session.id)
        async with child(data, STEADY) as process:
            screen.explain(f"A new process, {process.pid}, takes over; it reads only the file.")
            with screen.tree() as see:
                while await runtime.at_work(session.id):
                    see(await _tree(runtime, session.id))
                    await asyncio.sleep(LOOK_SECONDS)
                see(await _tree(runtime, session.id))
            after = await team(runtime, session.id)
            screen.line("agent", after.said)
        check_as_before(screen, before, after)
        check_told(screen, after)
        check_counted(screen, ledger.of("count")[counted:], pid)
    screen.check("The new process ended in good order.", holds=process.returncode == 0, seen=process)


async def _until_killed(data: Path, screen: Screen, runtime: Runtime, root_id: SessionId) -> tuple[Team, int]:
    """Kill the process when two helpers have ended and three have used their tool, but not answered."""
    async with child(data, STUCK) as process:
        screen.head(
            "6. A crash among them",
            f"Another process, {process.pid}, serves the same file; an orchestrator and five helpers work in "
            "it. It is killed when two have ended and three have counted, but not answered yet.",
        )
        screen.line("you", AGAIN)
        await runtime.send(root_id, AGAIN)
        with screen.tree() as see:
            while not await _half_done(runtime, root_id):
                see(await _tree(runtime, root_id))
                await asyncio.sleep(LOOK_SECONDS)
            see(await _tree(runtime, root_id))
        before = await team(runtime, root_id)
        process.kill()
        screen.line("kill -9", str(process.pid))
        code = await process.wait()
        left = await _tree(runtime, root_id)
        screen.check(
            "The process died of signal 9, and what it left is known: 3 tasks that no process runs.",
            holds=code == -signal.SIGKILL and [node.state for node in left.below].count("left") == 3,
            seen=(code, left),
        )
    return before, process.pid


async def _half_done(runtime: Runtime, root_id: SessionId) -> bool:
    """Return whether the quick helpers have ended and the counts of the others are stored."""
    tasks = {task.description: task for task in await runtime.tasks.list(root_id)}
    if len(tasks) < len(STOCK) or any(tasks[title(thing)].status != "completed" for thing in QUICK):
        return False
    for thing in set(STOCK) - set(QUICK):
        history = await runtime.messages(tasks[title(thing)].session_id)
        if not isinstance(state_of(history, "count"), ToolCompleted):
            return False
    return not isinstance(await runtime.status(root_id), Busy)
