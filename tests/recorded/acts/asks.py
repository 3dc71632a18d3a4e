"""Asks: permissions, questions and approvals, answered in every way, expired, or still open."""

import asyncio

from asyncagents.engine.workplace.workplace import AskPolicy
from asyncagents.llm.scripted import ScriptLine, call, say
from tests.recorded.cast import Scenes
from tests.recorded.recorder import Act, Recorder

COLOURS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "options": [{"label": "red", "description": "as a rose"}, {"label": "blue"}],
    },
    {"question": "How many?", "multiple": True, "options": [{"label": "one"}, {"label": "two"}]},
]


def _careful(text: str) -> ScriptLine:
    return call("careful", text=text)


SCENES: Scenes = {
    "allowed once": [[_careful("a")], [say("With care.")]],
    "allowed always": [[_careful("always/*")], [say("As ever.")]],
    "allowed before": [[_careful("always/*")], [say("Unasked.")]],
    "rejected": [[_careful("b"), call("echo", text="too")], [say("Never said.")]],
    "rejected with a word": [[_careful("c")], [say("Another way.")]],
    "edited": [[_careful("d")], [say("As you wrote it.")]],
    "asked twice": [[call("fickle", text="e")], [say("Twice.")]],
    "asked once of two": [[call("fickle", text="f")], [say("Later.")]],
    "asked too late": [[_careful("g")], [say("Without it.")]],
    "asked": [[_careful("h"), call("echo", text="beside")], [say("You let me.")]],
    "asked with a deadline": [[_careful("i")], [say("In time.")]],
    "questioned": [[call("question", questions=COLOURS)], [say("Red, then.")]],
    "question refused": [[call("question", questions=COLOURS)], [say("Never said.")]],
    "question": [[call("question", questions=COLOURS)], [say("Thank you.")]],
    "approved": [[call("sign_off", what="1.0")], [say("Released.")]],
    "disapproved": [[call("sign_off", what="1.1")], [say("Held back.")]],
    "approval": [[call("sign_off", what="1.2")], [say("Decided.")]],
    "approval expired": [[call("sign_off", what="0.9")], [say("Nobody answered.")]],
}


async def play_early(recorder: Recorder) -> None:
    """What expires."""
    async with recorder.process(asking=AskPolicy(silence="deny", seconds=60)) as at:
        at.serve()
        await at.prompt("asked too late")
        await at.prompted("approval expired")
        await asyncio.sleep(865_000)
        await at.settled("approval expired")


async def play(recorder: Recorder) -> None:
    async with recorder.process() as at:
        at.serve()
        await _answer_permissions(at)
        await at.send("questioned")
        await at.runtime.answer(await at.ask_of("questioned"), [["red"], ["one", "two"]])
        await at.send("question refused")
        await at.runtime.answer(await at.ask_of("question refused"), "reject")
        await at.send("approved")
        await at.runtime.answer(await at.ask_of("approved"), "approve", message="go", by="Ann")
        await at.send("disapproved")
        await at.runtime.answer(await at.ask_of("disapproved"), "reject", message="not yet", by="Bob")
        for name in ("questioned", "question refused", "approved", "disapproved"):
            await at.settled(name)
        for name in ("asked", "question", "approval"):
            await at.send(name)
            await at.ask_of(name)
    async with recorder.process(asking=AskPolicy(silence="fail", seconds=864_000)) as at:
        at.serve()
        await at.send("asked with a deadline")
        await at.ask_of("asked with a deadline")


async def _answer_permissions(at: Act) -> None:
    for name, reply in (("allowed once", "once"), ("allowed always", "always"), ("rejected", "reject")):
        await at.send(name)
        await at.runtime.answer(await at.ask_of(name), reply, by="Ann")
        await at.settled(name)
    await at.prompt("allowed before")
    await at.send("rejected with a word")
    await at.runtime.answer(await at.ask_of("rejected with a word"), "reject", message="try another way")
    await at.send("edited")
    await at.runtime.answer(await at.ask_of("edited"), "once", input={"text": "by a person"})
    for name in ("asked twice", "asked once of two"):
        await at.send(name)
        first = await at.ask_of(name)
        await at.runtime.answer(first, "once")
        await at.until(lambda: _asks_again(at, name, first))  # noqa: B023  it is awaited here
    await at.runtime.answer(await at.ask_of("asked twice"), "once")
    for name in ("rejected with a word", "edited", "asked twice"):
        await at.settled(name)


async def _asks_again(at: Act, name: str, before: str) -> bool:
    asks = await at.runtime.asks(at.id(name))
    return any(each.call.ask_id != before for each in asks)
