"""Calls that an MCP server answers with a task: they wait as rows, are polled, and end like other calls."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.backend import PolledDatabase
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.config import McpConfig
from asyncagents.domain.call.call import IN_DOUBT
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolWaiting
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.event import QuestionAsked
from asyncagents.engine.runtime.sessions import SessionOptions
from asyncagents.engine.tool import Pending, PendingAtServer, Tool, ToolContext
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.store.tx import Verb
from tests.support.mcp.server import DOT
from tests.support.mcp.session import free_port, open_mcp_session
from tests.support.mcp.task_session import FORM, TaskDesk, until_settled, work
from tests.support.runtime import Stage, open_sqlite_runtime, wait_until_idle
from tests.support.tool import NoArguments
from tests.support.wait import PATIENCE, wait_until

T = TypeVar("T")


@pytest.fixture
def desk(tmp_path: Path) -> TaskDesk:
    return TaskDesk(tmp_path / "desk")


def told(at: Stage) -> list[str]:
    return [each.output for each in at.request_messages() if isinstance(each, ToolTurn)]


@pytest.mark.spec("X-04", "C-03")
async def test_a_task_is_polled_until_it_completes(tmp_path: Path, desk: TaskDesk) -> None:
    async with open_mcp_session(tmp_path, work("a"), {"kit": desk.server()}) as at:
        await at.prompt("go")
        status, waiting = await at.status(), await at.open_call()
        await wait_until(lambda: not at.runtime.live)
        await desk.until_asked(2)
        desk.complete("a", "It is done.")
        (state,) = await until_settled(at)
        polls = at.runtime.counters.polls.counts

    assert isinstance(status, WaitingAsync)
    assert waiting.later is not None
    assert waiting.later.external_ref == "task-a"
    assert waiting.open is not None
    assert waiting.open.due == waiting.open.since + 24 * 3600 * 1000
    assert isinstance(state, ToolCompleted)
    assert told(at) == ["It is done."]
    assert polls["working",] >= 2
    assert polls["ended",] == 1
    assert len(desk.ledger.lines("work")) == 1
    assert desk.ledger.lines("cancel") == []


@pytest.mark.spec("X-04")
async def test_a_task_ends_as_an_ordinary_answer_of_the_server_would(tmp_path: Path, desk: TaskDesk) -> None:
    picture = {"type": "image", "data": DOT, "mimeType": "image/png"}
    words = {"type": "text", "text": "Look:"}
    script = work(
        *("picture", "data", "wrong", "failed", "cancelled", "odd", "long"),
        picture={"status": "completed", "result": {"content": [words, picture]}},
        data={"status": "completed", "result": {"content": [], "structuredContent": {"number": 7}}},
        wrong={"status": "completed", "result": {"content": [words], "isError": True}},
        failed={"status": "failed", "error": {"code": -32603, "message": "No disk."}},
        cancelled={"status": "cancelled", "statusMessage": "Out of hours."},
        odd={"status": "completed", "result": {"content": [{"type": "text"}]}},
    )
    async with open_mcp_session(tmp_path, script, {"kit": desk.server()}) as at:
        await at.prompt("go")
        await desk.until_written("get", 8)  # each once, and the long one again
        await at.runtime.async_tools.cancel((await at.open_call()).id)
        shown, data, *others = await until_settled(at)
        await desk.until_written("cancel")

    assert isinstance(shown, ToolCompleted)
    assert shown.attachments is not None
    assert len(shown.attachments) == 1
    assert "Look:" in shown.output
    assert isinstance(data, ToolCompleted)
    assert data.output == '{"number":7}'
    assert [each.error for each in others if isinstance(each, ToolFailed)] == [
        "Look:",
        "The task of the MCP server 'kit' failed: No disk.",
        "The MCP server 'kit' cancelled the task: Out of hours.",
        "The MCP server 'kit' has completed the task, but its result is not what the protocol asks for.",
        "cancelled",
    ]
    assert [line[1] for line in desk.ledger.lines("cancel")] == ["task-long"]


@pytest.mark.spec("X-04", "P-03")
async def test_a_server_that_died_is_started_again_and_asked_for_its_task(
    tmp_path: Path, desk: TaskDesk
) -> None:
    async with open_mcp_session(tmp_path, work("a"), {"kit": desk.server()}) as at:
        await at.prompt("go")
        await desk.ledger.kill()
        desk.complete("a", "After all.")
        await until_settled(at)

    assert told(at) == ["After all."]
    assert len(desk.ledger.lines("start")) == 2
    assert len(desk.ledger.lines("work")) == 1


@pytest.mark.spec("X-04")
async def test_a_task_of_a_server_behind_http_survives_that_server(tmp_path: Path, desk: TaskDesk) -> None:
    port = free_port()
    servers = {"kit": McpConfig(type="remote", url=f"http://127.0.0.1:{port}/mcp")}
    async with open_mcp_session(tmp_path, work("a"), servers) as at:
        async with desk.open_remote(port):
            await at.prompt("go")
            await desk.until_asked()
        desk.complete("a", "Over HTTP.")
        async with desk.open_remote(port):
            await until_settled(at)

    assert told(at) == ["Over HTTP."]
    assert len(desk.ledger.lines("work")) == 1
    assert [line[1:3] for line in desk.ledger.lines("client")] == [["True", "True"]]


async def test_a_task_that_its_server_has_lost_is_in_doubt(tmp_path: Path, desk: TaskDesk) -> None:
    async with open_mcp_session(tmp_path, work("a"), {"kit": desk.server()}) as at:
        await at.prompt("go")
        desk.lose("a")
        (state,) = await until_settled(at)

    assert isinstance(state, ToolFailed)
    assert "does not know the task 'task-a' any more" in state.error
    assert "It says: Task not found" in state.error
    assert state.metadata == {"inDoubt": True}


@pytest.mark.spec("X-04", "P-03")
async def test_a_form_is_put_to_a_person_once_and_its_answer_is_sent(tmp_path: Path, desk: TaskDesk) -> None:
    asks = {"kit": {"method": "elicitation/create", "params": FORM}}
    script = work("a", a={"status": "input_required", "inputRequests": asks})
    servers = {"kit": desk.server()}
    async with open_mcp_session(tmp_path, script, servers) as at:
        await at.prompt("go")
        asked = await at.listener.until(QuestionAsked)
        session_id = at.session_id
    async with open_mcp_session(tmp_path, script, servers) as after:
        await desk.until_asked(2)
        waiting = await after.runtime.asks()
        why = await after.runtime.tasks.why(session_id)
        await after.runtime.answer(asked.request.id, [["blue"], ["7"]])
        await desk.until_written("update")
        desk.set("a", status="completed", inputRequests=None, result={"content": []})
        await after.runtime.wait_tree(session_id)
        states = await Stage(after.runtime, session_id, after.model, after.listener).states()

    assert [each.question for each in asked.request.questions] == [
        "Which colour?\ncolour",
        "Which colour?\ncount (may be left out)",
    ]
    assert [each.call.ask_id for each in waiting] == [asked.request.id]
    assert why.code == "question"
    (sent,) = desk.ledger.lines("update")
    assert sent[2] == '{"kit":{"action":"accept","content":{"colour":"blue","count":7}}}'
    assert isinstance(states[0], ToolCompleted)


async def test_a_rejected_form_is_declined_and_the_call_goes_on(tmp_path: Path, desk: TaskDesk) -> None:
    asks = {"k": {"method": "elicitation/create", "params": FORM}}
    script = work("a", a={"status": "input_required", "inputRequests": asks})
    async with open_mcp_session(tmp_path, script, {"kit": desk.server()}) as at:
        await at.prompt("go")
        asked = await at.listener.until(QuestionAsked)
        await at.runtime.answer(asked.request.id, "reject")
        await desk.until_written("update")
        waiting = (await at.states())[0]
        desk.complete("a", "Then not.")
        await until_settled(at)

    (sent,) = desk.ledger.lines("update")
    assert sent[2] == '{"k":{"action":"decline"}}'
    assert isinstance(waiting, ToolWaiting)
    assert told(at) == ["Then not."]


@pytest.mark.spec("X-04")
async def test_an_abort_cancels_the_task_and_a_later_result_changes_nothing(
    tmp_path: Path, desk: TaskDesk
) -> None:
    async with open_mcp_session(tmp_path, work("a"), {"kit": desk.server()}) as at:
        await at.prompt("go")
        await desk.until_asked()
        await at.abort()
        desk.complete("a", "Too late.")
        await desk.until_written("cancel")
        asked = len(desk.ledger.lines("get"))
        async with asyncio.timeout(PATIENCE):
            times = await at.runtime.rest_check.remainder()
        (state,) = await at.states()

    assert isinstance(state, ToolFailed)
    assert state.error == "Tool execution aborted"
    assert len(desk.ledger.lines("cancel")) == 1
    assert len(desk.ledger.lines("get")) == asked
    assert times.pending == 0


async def test_a_server_without_the_extension_is_offered_nothing_and_answers_as_ever(
    tmp_path: Path, desk: TaskDesk
) -> None:
    async with open_mcp_session(tmp_path, work("a"), {"kit": desk.server(tasks=False)}) as at:
        await at.prompt("go")

    assert told(at) == ["inline a"]
    assert desk.ledger.lines("work") == []
    assert [line[1:3] for line in desk.ledger.lines("client")] == [["False", "False"]]


@pytest.mark.spec("X-04")
async def test_a_task_of_a_server_of_the_session_is_polled_after_a_restart_too(
    tmp_path: Path, desk: TaskDesk
) -> None:
    async with open_mcp_session(tmp_path, work("a"), {}) as at:
        session = await at.runtime.conversations.create(
            SessionOptions(directory=str(tmp_path), mcp_servers=(desk.given_server(),))
        )
        await at.runtime.prompt(session.id, "go")
    async with open_mcp_session(tmp_path, work("a"), {}) as after:
        await desk.until_asked()
        desk.complete("a", "Found again.")
        await after.runtime.wait_tree(session.id)
        *_, last = await after.runtime.messages(session.id)

    assert last.text == "Done."
    assert len(desk.ledger.lines("work")) == 1


class CutOff:
    """A database that is out of reach when a call is to be opened, as if the process died there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    def behind(self, database: PolledDatabase) -> PolledDatabase:
        self._database = database
        self.listen, self.poll, self.read = database.listen, database.poll, database.read
        return self

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        if "open_call" in verb.__qualname__:
            self.reached.set()
            await asyncio.get_running_loop().create_future()
        return await self._database.write(verb, inline=inline)


@pytest.mark.spec("X-04", "P-03")
async def test_a_call_whose_task_was_not_stored_is_in_doubt_and_never_made_again(tmp_path: Path) -> None:
    made: list[str] = []

    async def run(args: NoArguments, context: ToolContext) -> Pending:
        made.append(context.call_id)
        return PendingAtServer(server_task=ServerTask(server="kit", id="task-a"))

    places, database = fixed_tools([Tool("kit_work", NoArguments, run)]), CutOff()
    script = {"go": [[call("kit_work")], [say("Done.")]]}
    setup = Setup(model=ScriptedModel(script), open_workplaces=places)
    async with open_sqlite_runtime(tmp_path, setup, behind=database.behind) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.send(session.id, "go")
        async with asyncio.timeout(PATIENCE):
            await database.reached.wait()
    model = ScriptedModel(script)
    async with open_sqlite_runtime(tmp_path, Setup(model=model, open_workplaces=places)) as runtime:
        await wait_until_idle(runtime, session.id)

    (result,) = [each for each in model.requests[-1].messages if isinstance(each, ToolTurn)]
    assert result.output == IN_DOUBT
    assert len(made) == 1
