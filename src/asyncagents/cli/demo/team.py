"""The demo's acts about tasks: in sequence, in parallel, and through a kill -9."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.demo.checks import History, state_of
from asyncagents.cli.demo.child import STEADY, STUCK, open_child
from asyncagents.cli.demo.crew import (
    AGAIN,
    AT_ONCE,
    ONE_BY_ONE,
    QUICK,
    STOCK,
    SUM,
    CountTool,
    allow_all,
    count_answer,
    task_title,
)
from asyncagents.cli.demo.ledger import Effect, Ledger
from asyncagents.cli.demo.scene import POLL_SECONDS
from asyncagents.cli.demo.screen import DemoScreen
from asyncagents.cli.demo.shop import shop_model
from asyncagents.cli.inspect.read_task_tree import TaskNode, read_tree
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
    def answer(self) -> str:
        return self.history[-1].text

    def task_for(self, thing: str) -> BackgroundTask:
        [task] = [task for task in self.tasks if task.description == task_title(thing)]
        return task


async def read_team(runtime: Runtime, root_id: SessionId) -> Team:
    return Team(await runtime.messages(root_id), await runtime.tasks.list(root_id))


def check_same_results(screen: DemoScreen, slow: Team, fast: Team) -> None:
    results = [{task.description: task.result for task in each.tasks} for each in (slow, fast)]
    wanted = {task_title(thing): count_answer(thing) for thing in STOCK}
    screen.check(
        "Both did the same work: five tasks each, with the same five results, and the same answer.",
        holds=results == [wanted, wanted] and slow.answer == fast.answer == SUM,
        seen=(results, slow.answer, fast.answer),
    )


def check_notices(screen: DemoScreen, found: Team) -> None:
    """Check that the orchestrator's model reads one notice for each task."""
    notices = [
        part.text
        for entry in found.history
        if isinstance(entry.info, UserMessage)
        for part in entry.parts
        if isinstance(part, TextPart) and part.synthetic
    ]
    times = [sum(text.count(f"Task {task.session_id} ") for text in notices) for task in found.tasks]
    screen.check(
        "The orchestrator got exactly one notice for each of the five tasks.",
        holds=times == [1] * len(STOCK),
        seen=(times, notices),
    )


def check_unchanged(screen: DemoScreen, before: Team, after: Team) -> None:
    pairs = [(before.task_for(thing), after.task_for(thing)) for thing in QUICK]
    same = [(old.status, old.completed_at, old.result) for old, _ in pairs] == [
        (new.status, new.completed_at, new.result) for _, new in pairs
    ]
    results = {task.description: (task.status, task.result) for task in after.tasks}
    wanted = {task_title(thing): ("completed", count_answer(thing)) for thing in STOCK}
    screen.check(
        "What had ended stayed as it was; the three that were cut off went on, and all have their result.",
        holds=same and results == wanted and after.answer == SUM,
        seen=(pairs, results, after.answer),
    )


def check_counts(screen: DemoScreen, runs: Sequence[Effect], pid: int) -> None:
    """Check that the ledger has each count once, all by the killed process."""
    screen.check(
        "Nothing was run twice: five counts in the world outside, all by the process that was killed.",
        holds=len(runs) == len({run.key for run in runs}) == len(STOCK)
        and {run.pid for run in runs} == {pid},
        seen=runs,
    )


class TimedTeam(Struct, frozen=True):
    team: Team
    seconds: float


async def act_team(data: Path, screen: DemoScreen) -> None:
    screen.head(
        "5. Five agents at once",
        "An agent can launch others. Here five helpers count things: first one after the other, each in a "
        "call that the orchestrator waits for; then at once, while it rests until notices wake it.",
    )
    tools = [CountTool(Ledger(data)).tool()]
    async with open_runtime(
        data, model=shop_model(word_seconds=0), tools=tools, policy=allow_all, delegation=True
    ) as runtime:
        slow = await _run_prompt(screen, runtime, ONE_BY_ONE)
        fast = await _run_prompt(screen, runtime, AT_ONCE)
    check_same_results(screen, slow.team, fast.team)
    check_notices(screen, fast.team)
    screen.check(
        f"One after the other took {slow.seconds:.1f} s, at once {fast.seconds:.1f} s: "
        f"{slow.seconds / fast.seconds:.1f} times as fast.",
        holds=fast.seconds < slow.seconds,
        seen=(slow.seconds, fast.seconds),
    )


async def _run_prompt(screen: DemoScreen, runtime: Runtime, prompt: str) -> TimedTeam:
    """Send a prompt and show the tree until the orchestrator and all helpers rest."""
    session = await runtime.create_session(title=prompt)
    screen.line("you", prompt)
    began = asyncio.get_running_loop().time()
    await runtime.send(session.id, prompt)
    with screen.live_tree(_all_at_work) as see:
        while await runtime.at_work(session.id):
            see(await _read_tree(runtime, session.id))
            await asyncio.sleep(POLL_SECONDS)
        seconds = asyncio.get_running_loop().time() - began
        see(await _read_tree(runtime, session.id))
    found = await read_team(runtime, session.id)
    screen.line("agent", found.answer)
    return TimedTeam(found, seconds)


async def _read_tree(runtime: Runtime, root_id: SessionId) -> TaskNode:
    return await read_tree(runtime, await runtime.session(root_id))


def _all_at_work(node: TaskNode) -> bool:
    return [each.state for each in node.below] == ["streaming"] * len(STOCK)


async def act_team_crash(data: Path, screen: DemoScreen) -> None:
    async with open_runtime(data, model=shop_model(), serve=False) as runtime:
        session = await runtime.create_session(title=AGAIN)
        ledger = Ledger(data)
        counted = len(ledger.effects_of("count"))
        before, pid = await _run_until_killed(data, screen, runtime, session.id)
        async with open_child(data, STEADY) as process:
            screen.explain(f"A new process, {process.pid}, takes over; it reads only the file.")
            with screen.live_tree() as see:
                while await runtime.at_work(session.id):
                    see(await _read_tree(runtime, session.id))
                    await asyncio.sleep(POLL_SECONDS)
                see(await _read_tree(runtime, session.id))
            after = await read_team(runtime, session.id)
            screen.line("agent", after.answer)
        check_unchanged(screen, before, after)
        check_notices(screen, after)
        check_counts(screen, ledger.effects_of("count")[counted:], pid)
    screen.check("The new process ended in good order.", holds=process.returncode == 0, seen=process)


async def _run_until_killed(
    data: Path, screen: DemoScreen, runtime: Runtime, root_id: SessionId
) -> tuple[Team, int]:
    """Kill the process when two helpers have ended and three have used their tool, but not answered."""
    async with open_child(data, STUCK) as process:
        screen.head(
            "6. A crash among them",
            f"Another process, {process.pid}, serves the same file; an orchestrator and five helpers work in "
            "it. It is killed when two have ended and three have counted, but not answered yet.",
        )
        screen.line("you", AGAIN)
        await runtime.send(root_id, AGAIN)
        with screen.live_tree() as see:
            while not await _half_done(runtime, root_id):
                see(await _read_tree(runtime, root_id))
                await asyncio.sleep(POLL_SECONDS)
            see(await _read_tree(runtime, root_id))
        before = await read_team(runtime, root_id)
        process.kill()
        screen.line("kill -9", str(process.pid))
        code = await process.wait()
        left = await _read_tree(runtime, root_id)
        screen.check(
            "The process died of signal 9, and what it left is known: 3 tasks that no process runs.",
            holds=code == -signal.SIGKILL and [node.state for node in left.below].count("left") == 3,
            seen=(code, left),
        )
    return before, process.pid


async def _half_done(runtime: Runtime, root_id: SessionId) -> bool:
    """Return whether the quick helpers have ended and the counts of the others are stored."""
    tasks = {task.description: task for task in await runtime.tasks.list(root_id)}
    if len(tasks) < len(STOCK) or any(tasks[task_title(thing)].status != "completed" for thing in QUICK):
        return False
    for thing in set(STOCK) - set(QUICK):
        history = await runtime.messages(tasks[task_title(thing)].session_id)
        if not isinstance(state_of(history, "count"), ToolCompleted):
            return False
    return not isinstance(await runtime.status(root_id), Busy)
