"""Calls that wait for the outside: results, timers, webhooks; and models that ask for patience."""

import asyncio
from contextlib import AbstractContextManager, nullcontext

from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.observer import NoopObserver, ObserverSpan
from asyncagents.engine.run import Run
from asyncagents.llm.scripted import call, fail, say
from tests.recorded.cast import FAILING, GONE, WELL, Scenes
from tests.recorded.recorder import Act, Recorder

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BUSY = "example/busy"
SCENES: Scenes = {
    "shipped": [[call("ship", name="shipped", hook=WELL, signed=True)], [say("Shipped.")]],
    "not shipped": [[call("ship", name="not shipped", hook=GONE)], [say("It failed.")]],
    "shipped untold": [[call("ship", name="untold", hook=FAILING)], [say("Shipped, and tried to tell.")]],
    "shipping expired": [[call("ship", name="expired", seconds=30)], [say("It took too long.")]],
    "cancelled shipping": [[call("ship", name="cancelled")], [say("It was cancelled.")]],
    "shipping": [
        [call("ship", name="open", hook=WELL, signed=True), call("echo", text="beside")],
        [say("At last.")],
    ],
    "shipping warned": [[call("ship", name="warned", seconds=100_000)], [say("Just in time.")]],
    "built": [[call("build", name="built")], [say("Built.")]],
    "building": [[call("build", name="checked")], [say("It was built.")]],
    "shown": [[call("ship", name="shown")], [say("Never said first.")]],
    "shown meanwhile": [[say("Not yet.")], [say("Now it is here.")]],
    "shown and told": [[call("ship", name="told")], [say("Never said first.")]],
    "told meanwhile": [[say("Wait.")], [say("I was told.")]],
    "handed over": [[call("hand_over", name="report")], [say("It was written.")]],
    "nap over": [[call("wait", seconds=30, reminder="tea")], [say("Rested.")]],
    "nap cut short": [[call("wait", seconds=9_000)], [say("Awake.")]],
    "nap cut short by": [[say("I am here.")]],
    "nap": [[call("wait", seconds=200_000, reminder="the plants")], [say("Watered.")]],
    "backoff": [[fail("overloaded", retryable=True, status=503, retry_after=3_000)]],
    "busy model": [[fail("too many", retryable=True, status=429, retry_after=3_000)]],
    "held by a busy model": [[say("At last.")]],
    "traced": [[call("ship", name="traced")], [say("Traced.")]],
    "held": [[call("careful", text="held")], [say("Never said.")]],
    "result came first": [[call("ship", name="early"), call("ship", name="late")], [say("Both.")]],
    "settled unserved": [[call("ship", name="unserved", hook=WELL)], [say("It was in.")]],
}


async def play_early(recorder: Recorder) -> None:
    """What expires, and what people are warned of."""
    async with recorder.process() as at:
        at.serve()
        for name in ("shipping expired", "nap over"):
            await at.prompted(name)
        await asyncio.sleep(60)
        await at.settled("shipping expired")
        await at.settled("nap over")
        await at.prompted("shipping warned")
        await asyncio.sleep(97_000)


async def play(recorder: Recorder) -> None:
    async with recorder.process() as at:
        at.serve()
        await _ship(at)
        await _show(at)
        await _nap(at)
        await _hold(at)
        await at.prompt("handed over")
        await at.prompted("result came first")
        early, _ = await at.runtime.open_calls(at.id("result came first"))
        await at.runtime.complete(early.id, "the first of two")
        await at.runtime.async_tools.rotate_key()
    async with recorder.process(watch=Tracing()) as at:
        at.serve()
        await at.prompted("traced")


async def play_late(recorder: Recorder) -> None:
    """Requests that wait for their next try when the recording ends."""
    async with recorder.process() as at:
        at.serve()
        await at.send("backoff")
        await at.send("busy model", model=BUSY)
        await asyncio.sleep(5)
        await at.send("held by a busy model", model=BUSY)
        await asyncio.sleep(5)


async def _ship(at: Act) -> None:
    names = ("shipped", "not shipped", "shipped untold", "cancelled shipping", "built", "shipping")
    for name in (*names, "building", "settled unserved"):
        await at.prompted(name)
    await at.runtime.complete((await at.call("shipped")).id, "v1 is live", title="Deployed")
    await at.runtime.fail((await at.call("not shipped")).id, "the disk is full")
    await at.runtime.complete((await at.call("shipped untold")).id, "v2 is live")
    await at.runtime.async_tools.cancel((await at.call("cancelled shipping")).id)
    await at.runtime.complete((await at.call("built")).id, "build 7")
    for name in names:
        await at.settled(name)
    await asyncio.sleep(2)


async def _show(at: Act) -> None:
    """A prompt in between tells the model of a call that is pending; its result comes as a message."""
    await at.prompted("shown")
    await at.prompted("shown", "shown meanwhile")
    await at.prompted("shown and told")
    await at.prompted("shown and told", "told meanwhile")
    await at.runtime.complete((await at.call("shown and told")).id, "late, but here")
    await at.settled("shown and told")


async def _nap(at: Act) -> None:
    await at.prompted("nap cut short")
    await at.prompted("nap cut short", "nap cut short by")
    await at.prompted("nap")


async def _hold(at: Act) -> None:
    """Input that waits behind an ask is held back by an abort."""
    await at.send("held")
    await at.ask_of("held")
    await at.runtime.send(at.id("held"), "held back")
    await at.runtime.abort(at.id("held"))
    await at.settled("held")


class _Traced:
    trace: str | None = PARENT

    def __enter__(self) -> "_Traced":
        return self

    def __exit__(self, *how: object) -> None: ...


class Tracing(NoopObserver):
    """Trace every turn under one parent."""

    is_tracing = True

    def caller_trace(self) -> str | None:  # type: ignore[override]
        return PARENT

    def use_parent(self, trace: str) -> AbstractContextManager[object]:
        return nullcontext()

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        return _Traced()
