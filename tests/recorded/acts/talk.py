"""Conversations: steps and their failures, summaries, copies, undoing, removing, commands by hand."""

import asyncio

import msgspec
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import SHAPE_VERSION
from asyncagents.domain.conversation.failure import context_overflow_error
from asyncagents.domain.conversation.part import PartTime, TextPart, TextSpan
from asyncagents.domain.conversation.part_input import AgentInput, FileInput, SubtaskInput, TextInput
from asyncagents.domain.conversation.session import Rule, SessionChanges, SessionModel
from asyncagents.domain.window import Window
from asyncagents.engine.runtime.sessions import SessionOptions
from asyncagents.llm.scripted import Fail, call, end, fail, pause, say, think
from asyncagents.store.tx import Tx
from tests.recorded.cast import FILLING, Scenes
from tests.recorded.recorder import PROJECT, Act, Recorder, verb_of
from tests.simulation.undo_files import Disk

LONG = "Tell me at great length, and with all the details that there are, what happened in the year 1066"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SCENES: Scenes = {
    "hello": [[think("A greeting."), say("Hi ", "there — ünïcode ✓.")]],
    "plan": [
        [
            call(
                "todowrite",
                todos=[
                    {"content": "Look", "status": "completed", "priority": "high"},
                    {"content": "Leap", "status": "in_progress"},
                    {"content": "Land", "priority": "low"},
                    {"content": "Fly", "status": "cancelled"},
                ],
            )
        ],
        [say("Planned.")],
    ],
    LONG: [[say("Much happened.")]],
    "along": [[say("I see a picture.")]],
    "formed": [[call("StructuredOutput", n=7)]],
    "unformed": [[say("seven")], [say("still seven")]],
    "tools": [
        [call("echo", text="one"), call("boom", text="two"), call("forbidden", text="three")],
        [say("Done.")],
    ],
    "hooked": [[call("echo", text="by the model")], [say("Hooked.")]],
    "again and again": [[call("echo", text="same")]] * 3 + [[say("Enough.")]],
    "fail": [[fail("no such model", status=400)]],
    "fail once": [[fail("busy", retryable=True, status=503, retry_after=1)]],
    "cut": [[say("Half a"), fail("gone", retryable=True, status=502, retry_after=1)]],
    "length": [[say("It goes on and"), end("length")]],
    "filtered": [[end("content-filter")]],
    "overflow": [[Fail(context_overflow_error("too long"))]],
    "abort": [[say("I beg"), pause(9e9)]],
    "summed": [[say("First answer.")]],
    "summed more": [[say("Second answer.")]],
    "summed after": [[say("Third answer.")]],
    "pruned": [[call("much", words=1_200 + number)] for number in range(9)] + [[say("That was much.")]],
    "full": [[say("x " * 5_000)]],
    FILLING: [[say("Full.")]],
    "copied": [[call("echo", text="to be copied")], [say("Copy me.")]],
    "undone": [[call("ship", name="undone")], [say("Undo me.")]],
    "undone files": [[call("edit", text="after")], [say("Edited.")]],
    "subtask": [[say("Not needed.")], [say("The task is done.")]],
    "a small task": [[say("Small result.")]],
    "cleared": [[say("Gone soon.")]],
    "cleared then": [[say("Said instead.")]],
    "cut out": [[say("Stays.")], [say("Other.")]],
    "cut out more": [[say("Goes.")]],
    "renamed": [[say("Fine.")]],
    "shell": [[say("I saw it.")]],
    "unknown": [[say("A strange part stands here.")]],
}


async def play(recorder: Recorder) -> None:
    async with recorder.process(titles=True) as at:
        at.serve()
        await _say_hello(at)
        await _fail(at)
        await _undo_and_remove(at)
        await _run_by_hand(at)
        await _keep_what_is_not_known(at)
    async with recorder.process(hooks=True) as at:
        at.serve()
        await at.prompt("hooked")
    await _summarise(recorder)
    await _undo_files(recorder)


async def _say_hello(at: Act) -> None:
    first = await at.prompt("hello", key="a key")
    again = await at.runtime.prompt(at.id("hello"), "hello", key="a key")
    assert first == again, "the same key gives the same answer"
    await at.prompt("plan")
    titled = await at.runtime.create_session(directory="/srv/other", key="the titled one")
    at.know("titled", titled.id)
    await at.runtime.prompt(titled.id, LONG)
    text = TextInput(text="noted", synthetic=True, metadata={"by": "a client"})
    picture = FileInput(mime="image/gif", url=PIXEL, filename="pixel.gif")
    agent = AgentInput(name="general", source=TextSpan(value="@general", start=0, end=8))
    await at.prompt("along", parts=[text, picture, agent], system="Be brief.", tools={"echo": False})
    await at.prompt("formed", format={"type": "json_schema", "schema": SCHEMA})
    await at.prompt("unformed", format={"type": "json_schema", "schema": SCHEMA, "retryCount": 1})
    await at.prompt("tools")
    await at.send("again and again")
    await at.runtime.answer(await at.ask_of("again and again"), "once")
    await at.settled("again and again")


async def _fail(at: Act) -> None:
    for name in ("fail", "length", "filtered", "overflow"):
        await at.prompt(name)
    for name in ("fail once", "cut"):
        await at.send(name)
        await asyncio.sleep(10)
        await at.runtime.abort(at.id(name))
        await at.settled(name)
    await at.send("abort")
    await asyncio.sleep(5)
    await at.runtime.send(at.id("abort"), "what was never read")
    await at.runtime.abort(at.id("abort"))
    await at.settled("abort")


async def _undo_and_remove(at: Act) -> None:
    await at.prompt("copied")
    copy = await at.runtime.conversations.fork(at.id("copied"), key="a copy")
    at.know("the copy", copy.id)
    await at.send("undone")
    await at.settled("undone")
    whole = await at.runtime.conversations.fork(at.id("undone"))
    at.know("the copy of what waits", whole.id)
    asked = (await at.runtime.messages(at.id("undone")))[0].info.id
    await at.runtime.reverts.revert(at.id("undone"), asked)
    await at.prompt("cleared")
    asked = (await at.runtime.messages(at.id("cleared")))[0].info.id
    await at.runtime.reverts.revert(at.id("cleared"), asked)
    await at.prompt("cleared", "cleared then")
    await _cut_out(at)
    renamed = at.runtime.conversations
    await at.prompt("renamed")
    deny = (Rule(permission="bash", pattern="rm *", action="deny"),)
    await renamed.change(
        at.id("renamed"),
        SessionChanges(title="Ümlaut", archived=1_700_000_000_123, metadata={"a": [1]}, permission=deny),
    )
    model = SessionModel(id="large", provider_id="example", variant="slow")
    opening = SessionOptions(
        directory=PROJECT, title="opened", agent="general", model=model, metadata={"b": None}
    )
    at.know("opened", (await at.runtime.conversations.create(opening)).id)
    gone = await at.session("gone", permission=deny)
    await at.prompt("gone")
    await at.runtime.delete_session(gone)


async def _cut_out(at: Act) -> None:
    """Take out a message and a part, and write another part anew."""
    await at.prompt("cut out")
    await at.prompt("cut out", "cut out more")
    _, first, asked, last = await at.runtime.messages(at.id("cut out"))
    talks = at.runtime.conversations
    said = next(part for part in first.parts if isinstance(part, TextPart))
    await talks.change_part(replace(said, text="Stays, changed.", time=PartTime(start=1, end=2)))
    await talks.remove_part(at.id("cut out"), first.info.id, first.parts[-1].id or said.id)
    await talks.remove_message(at.id("cut out"), last.info.id)
    await talks.remove_message(at.id("cut out"), asked.info.id)


async def _run_by_hand(at: Act) -> None:
    await at.session("shell")
    await at.runtime.shell(at.id("shell"), "ls -l", key="shell")
    await at.prompt("shell")
    task = SubtaskInput(prompt="a small task", description="By hand", agent="general", command="find")
    await at.prompt("subtask", parts=[task])


async def _summarise(recorder: Recorder) -> None:
    async with recorder.process() as at:
        at.serve()
        await at.prompt("summed")
        await at.prompt("summed", "summed more")
        await at.runtime.compact(at.id("summed"), "the second answer")
        await at.prompt("summed", "summed after")
        await at.prompt("pruned")
        await at.prompt("pruned", "hello")
    async with recorder.process(window=Window(context=20_000, output=2_000)) as at:
        at.serve()
        for _ in range(8):
            await at.prompt("full")
        await at.prompt("full", FILLING)


async def _undo_files(recorder: Recorder) -> None:
    disk = Disk()
    disk.files = {"notes.txt": "before"}
    async with recorder.process(disk=disk) as at:
        at.serve()
        sent = await at.send("undone files")
        await at.settled("undone files")
        await at.runtime.reverts.revert(at.id("undone files"), sent)
    async with recorder.process(disk=disk) as at:
        at.serve()
        sent = await at.send("undoing files", "undone files")
        await at.settled("undoing files")
        at.process.fatal = lambda taken: verb_of(taken) == "RevertStore.mark_undone"
        undoing = at.group.create_task(at.runtime.reverts.revert(at.id("undoing files"), sent))
        await at.process.over.wait()
        undoing.cancel()


async def _keep_what_is_not_known(at: Act) -> None:
    """Put a part beside an answer that only a newer program knows, in a row of a newer shape."""
    answer = await at.prompt("unknown")
    session_id, message_id = at.id("unknown"), answer.info.id
    part_id = f"{answer.parts[-1].id}z"
    raw = {"id": part_id, "sessionID": session_id, "messageID": message_id, "type": "hologram", "beam": [1]}

    async def verb(tx: Tx) -> None:
        body = msgspec.json.encode(raw)
        await tx.one("put_part", part_id, message_id, session_id, body, SHAPE_VERSION + 1, await tx.rev())

    await at.store._write(verb)
