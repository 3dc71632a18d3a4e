"""Sessions that work for sessions: every status of a task, and every state of a notice."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from asyncagents.llm.model import ChatRequest, ToolTurn
from asyncagents.llm.scripted import ScriptLine, ScriptStep, call, fail, say
from tests.recorded.cast import Scenes
from tests.recorded.recorder import Act, Recorder


def launch(name: str, prompt: str, **more: Any) -> ScriptLine:
    return call("asyncagents_task", description=name, prompt=prompt, agent="general", **more)


def sync(name: str, prompt: str, **more: Any) -> ScriptLine:
    return call("task", description=name, prompt=prompt, subagent_type="general", **more)


def with_id(tool: str, key: str = "task_id", **more: Any) -> Callable[[ChatRequest], ScriptStep]:
    """Call a tool about the first task that the model was told of."""

    def step(request: ChatRequest) -> ScriptStep:
        texts = [told.output for told in request.messages if isinstance(told, ToolTurn)]
        return [call(tool, **{key: re.findall(r"\bses_\w+", "\n".join(texts))[0]}, **more)]

    return step


SCENES: Scenes = {
    "quick": [[say("Quick result.")]],
    "tools of a child": [[call("echo", text="child"), call("echo", text="too")], [say("Looked it up.")]],
    "child fails": [[fail("no such model", status=400)]],
    "child waits": [[call("ship", name="by a child")], [say("The child has it.")]],
    "child waits too": [[call("ship", name="by another child")], [say("The other child has it.")]],
    "child asks": [[call("careful", text="by a child")], [say("The child was let.")]],
    "child follows": [[say("Followed up.")]],
    "grandchild": [[sync("Deep", "child waits too")], [say("From the deep.")]],
    # Sync
    "sync done": [[sync("Sync one", "quick"), sync("Sync two", "tools of a child")], [say("Both done.")]],
    "sync failed": [[sync("Sync fails", "child fails")], [say("It failed.")]],
    "sync asks": [[sync("Sync asks", "child asks")], [say("It was let.")]],
    "sync waits": [[sync("Sync waits", "child waits")], [say("It came.")]],
    "sync moved": [[sync("Sync moved", "child waits")], [say("It goes on.")], [say("It ended.")]],
    "sync resumed": [
        [sync("Sync again", "quick")],
        with_id("task", description="Again", prompt="child follows", subagent_type="general"),
        [say("Twice.")],
    ],
    # In the background
    "batch": [
        [
            launch("Batch done", "quick"),
            launch("Batch fails", "child fails"),
            launch("Batch runs", "child waits"),
        ],
        [say("Off they go.")],
        [say("Told.")],
        [say("Told again.")],
    ],
    "read": [
        [launch("Read one", "child waits")],
        with_id("asyncagents_output", block=True, timeout=600),
        [say("I read it.")],
    ],
    "reading": [
        [launch("Read later", "child waits")],
        with_id("asyncagents_output"),
        with_id("asyncagents_output"),
        with_id("asyncagents_output"),
        [say("I read it, too.")],
    ],
    "listed": [
        [launch("Listed", "quick")],
        [call("asyncagents_list")],
        [say("There is one.")],
        [say("Told.")],
    ],
    "cancelled by parent": [
        [launch("Stopped", "child waits")],
        with_id("asyncagents_cancel"),
        [say("Stopped it.")],
    ],
    "cancelled by user": [
        [launch("Stopped by user", "child waits")],
        [say("Off.")],
        [say("It was stopped.")],
    ],
    "cancelled tree": [[launch("Stopped with all", "grandchild")], [say("Off.")], [say("Never said.")]],
    "cleared tasks": [
        [launch("Cleared", "quick")],
        [say("Off.")],
        [say("Told.")],
    ],
    "clear them": [[call("asyncagents_clear")], [say("Cleared.")]],
    "forked task": [
        [call("echo", text="known to both")],
        [launch("Forked", "quick", fork=True)],
        [say("A fork works.")],
        [say("It is done.")],
    ],
    "resumed": [
        [launch("Resumed", "quick")],
        [say("Off.")],
        [say("Told.")],
        [say("Told once more.")],
    ],
    "resume it": [
        with_id("asyncagents_task", "resume", prompt="child follows"),
        [say("Again.")],
        [say("Twice.")],
    ],
    "resumed alive": [[launch("Resumed alive", "child asks")], [say("Off.")], [say("Told.")]],
    "polled": [
        [call("async_task", description="Polled", prompt="child waits", agent="general")],
        [say("Off.")],
    ],
    "too slow": [[launch("Too slow", "child waits")], [say("Off.")], [say("It was too slow.")]],
    "in its time": [[launch("In its time", "child waits")], [say("Off.")], [say("It was in time.")]],
    "read at last": [
        [launch("Read at last", "child waits")],
        with_id("asyncagents_output", block=True, timeout=600),
        [say("I read it at last.")],
    ],
    "exported": [
        [launch("At work", "holds a place"), launch("Waits", "child waits")],
        [say("Off.")],
        [say("Told.")],
    ],
    "holds a place": [[call("press", text="in a crowd")], [say("Made room.")]],
    "deep": [[launch("Deep down", "grandchild")], [say("Off.")], [say("It came up.")]],
    "abandoned": [[launch("Abandoned", "child waits")], [say("Off.")], [say("Never said.")]],
}


async def play_early(recorder: Recorder) -> None:
    """A task that does not end in its time."""
    async with recorder.process(task_seconds=60) as at:
        at.serve()
        await at.prompted("too slow")
        await asyncio.sleep(120)
        await at.settled("too slow")


async def play(recorder: Recorder) -> None:
    async with recorder.process() as at:
        at.serve()
        await _wait_for_children(at)
        await _launch(at)
        await _read(at)
        await _stop(at)
        await _resume(at)


async def play_late(recorder: Recorder) -> None:
    """Tasks whose time runs when the recording ends."""
    async with recorder.process(task_seconds=86_400) as at:
        at.serve()
        await at.prompted("in its time")
        await at.send("read at last")
        await at.until(lambda: _reads(at, "read at last", 1))


async def _wait_for_children(at: Act) -> None:
    for name in ("sync done", "sync failed", "sync resumed"):
        await at.prompt(name)
    await at.send("sync asks")
    await at.ask_of("sync asks")
    await at.prompted("sync waits")
    await at.prompted("sync moved")
    await at.runtime.tasks.background(await at.child("sync moved", "Sync moved"))
    await at.settled("sync moved")


async def _launch(at: Act) -> None:
    for name in ("batch", "listed", "forked task", "deep", "polled"):
        await at.prompted(name)
        await at.settled(name)
    await at.prompted("cleared tasks")
    await at.prompted("cleared tasks", "clear them")


async def _read(at: Act) -> None:
    for name, tools in (("read", 1), ("reading", 3)):
        await at.send(name)
        await at.until(lambda: _reads(at, name, tools))  # noqa: B023  it is awaited here
    child = await at.child("read", "Read one")
    (call_,) = await at.runtime.open_calls(child)
    await at.runtime.complete(call_.id, "for the reader")
    await at.settled("read")


async def _reads(at: Act, name: str, many: int) -> bool:
    calls = [each for each in await at.store.calls(at.id(name)) if each.tool == "asyncagents_output"]
    return len(calls) == many and calls[-1].open is not None


async def _stop(at: Act) -> None:
    await at.prompted("cancelled by parent")
    await at.prompted("cancelled by user")
    await at.runtime.tasks.cancel(await at.child("cancelled by user", "Stopped by user"))
    await at.settled("cancelled by user")
    await at.prompted("cancelled tree")
    await at.runtime.abort(at.id("cancelled tree"))
    await at.settled("cancelled tree")
    await at.prompted("abandoned")
    await at.runtime.delete_session(await at.child("abandoned", "Abandoned"))


async def _resume(at: Act) -> None:
    await at.prompted("resumed")
    await at.until_task("resumed", "Resumed", "completed")
    await at.settled("resumed")
    await at.prompted("resumed", "resume it")
    await at.settled("resumed")
    await at.prompted("resumed alive")
    child = await at.child("resumed alive", "Resumed alive")
    await at.runtime.tasks.resume(child, "child follows")
