"""Processes that die: in a step, in a tool, between two transactions; and what nobody takes up afterwards."""

import asyncio

from asyncagents.llm.scripted import call, pause, say
from tests.recorded.acts.tasks import launch
from tests.recorded.cast import Scenes
from tests.recorded.recorder import Recorder, verb_of
from tests.simulation.tape import Taken

SCENES: Scenes = {
    "in doubt": [[call("press", text="the button")], [say("Perhaps.")]],
    "begun in doubt": [[call("begin", name="in doubt")], [say("It had begun, then.")]],
    "cut off": [[say("I was"), pause(9e9), say(" cut off.")]],
    "requested": [
        [call("press", text="never begun"), call("echo", text="nor this")],
        [say("Begun after all.")],
    ],
    "running": [
        [call("press", text="once"), call("stir", text="again"), call("peek", text="harmless")],
        [say("It ran.")],
    ],
    "starting": [[call("begin", name="starting")], [say("It had begun.")]],
    "streaming": [[say("I was about to"), pause(9e9), say(" say this.")]],
    "asking a model": [[pause(9e9), say("At last.")]],
    "told of nothing": [[launch("Ended unseen", "unseen")], [say("Off.")], [say("Now I know.")]],
    "unseen": [[pause(30), say("Unseen result.")]],
    "crowded": [
        [launch(f"Crowded {number}", "holds a place") for number in range(3)],
        [say("Off.")],
        [say("Told.")],
        [say("Told.")],
        [say("Told.")],
    ],
    "summing": [[say("Something to sum up, hang on.")]],
    "ready": [[say("Taken up.")]],
    "cancelled unserved": [[call("peek", text="cancelled")], [say("Never said.")]],
    "crashing": [[launch("Crashing", "crash")], [say("Off.")], [say("It crashed.")]],
    "crash": [[say("Never said.")]],
    "last": [[say("The last words"), pause(9e9)]],
}


async def play(recorder: Recorder) -> None:
    """Each process works on one tree alone, so that what the others left stays as it is."""
    await _doubt(recorder)
    await _crash_again_and_again(recorder)
    async with recorder.process() as at:
        await at.session("requested")
        at.serve("requested")
        await at.crash_after("Store.finish_step", "requested")
    for name, tool in (("running", "peek"), ("starting", "begin"), ("cancelled unserved", "peek")):
        async with recorder.process() as at:
            await at.send(name)
            at.serve(name)
            await at.until_call(name, "Running", tool)
            await at.crash()
    for name in ("streaming", "asking a model"):
        async with recorder.process() as at:
            await at.send(name)
            at.serve(name)
            await asyncio.sleep(10)
            await at.crash()
    await _leave_unserved(recorder)
    await _crash_with_children(recorder)


async def play_last(recorder: Recorder) -> None:
    """Copy the files while a process is in the middle of a step, as a kill would leave them; then it dies."""
    async with recorder.process() as at:
        await at.send("last")
        at.serve("last")
        await asyncio.sleep(10)
        recorder.keep()
        await at.crash()


async def _doubt(recorder: Recorder) -> None:
    """Crash in a tool that may have had its effect, in one that may have begun, and in a step; then go on."""
    for name, goes_on in (("in doubt", {}), ("begun in doubt", {}), ("cut off", {"hang": False})):
        async with recorder.process() as at:
            await at.send(name)
            at.serve(name)
            await asyncio.sleep(10)
            await at.crash()
        async with recorder.process(**goes_on) as at:
            at.serve(name)
            await at.settled(name)


async def _crash_again_and_again(recorder: Recorder) -> None:
    """A child whose process dies with each claim is given up, and its parent is told."""
    async with recorder.process() as at:
        await at.send("crashing")
        at.serve("crashing")
        at.process.fatal = lambda taken: verb_of(taken) == "Store.finish_call"
        await at.process.over.wait()
    for _ in range(6):
        async with recorder.process() as at:
            at.process.fatal = _claims_a_child
            at.serve("crashing")
            await asyncio.sleep(30)
    async with recorder.process() as at:
        at.serve("crashing")
        await at.settled("crashing")


def _claims_a_child(taken: Taken) -> bool:
    return verb_of(taken) == "Store.claim" and taken.value is not None and bool(taken.value.control.depth)


async def _leave_unserved(recorder: Recorder) -> None:
    """Write down outside events while no process works on the sessions."""
    async with recorder.process() as at:
        await at.send("ready", wakes=True)
        await at.runtime.send(at.id("ready"), "and this along with it", wakes=False)
        await at.runtime.abort(at.id("cancelled unserved"), seconds=0.1)
        await at.runtime.complete((await at.call("settled unserved")).id, "nobody saw it yet")
        await at.send("summing")
        at.serve("summing")
        await at.settled("summing")
        await at.runtime.submit_compaction(at.id("summing"), "hang")
        await asyncio.sleep(10)
        await at.crash()


async def _crash_with_children(recorder: Recorder) -> None:
    async with recorder.process() as at:
        await at.send("told of nothing")
        at.serve("told of nothing")
        await asyncio.sleep(10)
        at.process.fatal = lambda taken: verb_of(taken) in ("Store.finish_step", "Store.rest")
        await at.process.over.wait()
    async with recorder.process(concurrent=1) as at:
        await at.send("crowded")
        at.serve("crowded")
        await asyncio.sleep(30)
        await at.crash()
