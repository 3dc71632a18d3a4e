"""`opencode acp` and `qwen --acp` as subagents: what they ask, say and do passes through us."""

from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import (
    ReasoningPart,
    StepFinishPart,
    TextPart,
    ToolCompleted,
    ToolFailed,
    ToolPart,
)
from asyncagents.domain.id import SessionId
from asyncagents.testing.provider import Reply, Script
from tests.peer.foreign import PROGRAMS, ForeignProgram
from tests.peer.foreign_stage import PATIENCE, ForeignStage, launching, open_foreign_stage
from tests.support.process.npm import SECONDS
from tests.support.wait import wait_until

pytestmark = [pytest.mark.timeout(SECONDS + 4 * PATIENCE), pytest.mark.parametrize("name", PROGRAMS)]


def working(program: ForeignProgram) -> Script:
    return {
        "go": [launching("work"), Reply(text="Launched.")],
        "work": [
            program.run_line("./note asked one", text="I look.", reasoning="Hm."),
            Reply(text="It is done."),
        ],
        "more": [program.run_line("./note asked two"), Reply(text="Nobody sees this.")],
        "stay": [program.run_line("./hold three")],
    }


@pytest.mark.spec("X-03")
async def test_a_foreign_program_asks_works_goes_on_and_is_cancelled(name: str, tmp_path: Path) -> None:
    async with open_foreign_stage(tmp_path, name, working) as stage:
        parent = await stage.begin()
        await check_work(stage, parent)
        await check_cancel_of_a_follow_up(stage, parent)
        assert stage.lines_run() == ["asked one"]


@pytest.mark.soak
@pytest.mark.spec("X-03")
async def test_a_foreign_program_ends_its_turn_at_a_refusal(name: str, tmp_path: Path) -> None:
    async with open_foreign_stage(tmp_path, name, working) as stage:
        parent = await stage.begin()
        await check_work(stage, parent)
        await check_refusal(stage, parent)
        assert stage.lines_run() == ["asked one"]


async def check_work(stage: ForeignStage, parent: SessionId) -> None:
    """A person allows the command; text, thought, call and tokens are recorded."""
    ask = await stage.wait_for_ask()
    assert (ask.permission, ask.patterns) == ("bash", ("./note asked one",))
    await stage.client.answer(ask.id, "once")
    (task,) = await stage.wait_for_ends(parent)
    assert (task.status, task.result) == ("completed", "I look.\nIt is done.")
    (thought, said, call, last, end) = await stage.answer_parts(task.session_id)
    assert isinstance(thought, ReasoningPart)
    assert isinstance(said, TextPart)
    assert isinstance(call, ToolPart)
    assert isinstance(last, TextPart)
    assert isinstance(end, StepFinishPart)
    assert (thought.text, said.text, last.text) == ("Hm.", "I look.", "It is done.")
    assert isinstance(call.state, ToolCompleted)
    assert call.tool == "external:execute"
    assert call.state.input["command"] == "./note asked one"
    assert (end.tokens.input, end.tokens.output) == stage.program.reported(requests=2)
    assert len(await stage.notices(parent)) == 1


async def check_refusal(stage: ForeignStage, parent: SessionId) -> None:
    """A follow-up is refused what it asks for; both programs end their turn then."""
    (task,) = await stage.tasks(parent)
    await stage.client.tasks.resume(task.session_id, "more")
    ask = await stage.wait_for_ask()
    await stage.client.answer(ask.id, "reject")
    (task,) = await stage.wait_for_ends(parent)
    assert (task.status, task.result) == ("completed", "")
    (call, _) = await stage.answer_parts(task.session_id)
    assert isinstance(call, ToolPart)
    assert isinstance(call.state, ToolFailed)
    assert len(await stage.notices(parent)) == 2


async def check_cancel_of_a_follow_up(stage: ForeignStage, parent: SessionId) -> None:
    """A follow-up goes to the same session of the program; a cancel ends the program and what it runs."""
    ((before, _),) = stage.external_sessions()
    (task,) = await stage.tasks(parent)
    await stage.client.tasks.resume(task.session_id, "stay")
    await wait_until(lambda: stage.has_process("./hold"), seconds=PATIENCE)
    assert await stage.client.tasks.cancel(task.session_id)
    assert stage.processes() == []
    (task,) = await stage.wait_for_ends(parent)
    assert (task.status, task.ended_by) == ("cancelled", "user")
    (call,) = await stage.answer_parts(task.session_id)
    assert isinstance(call, ToolPart)
    assert isinstance(call.state, ToolFailed)
    assert call.state.input["command"] == "./hold three"
    assert stage.external_sessions() == [(before, 2)]
    assert "It is done." in stage.last_request_for("stay")
    assert len(await stage.notices(parent)) == 2


@pytest.mark.soak
@pytest.mark.spec("X-03")
async def test_a_file_outside_the_project_is_asked_for_and_not_read_without_an_answer(
    name: str, tmp_path: Path
) -> None:
    secret = tmp_path / "elsewhere" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("the word is needle\n")

    def peeking(program: ForeignProgram) -> Script:
        launches = [launching("peek"), Reply(text="Launched.")]
        return {"go": launches, "peek": [program.read_file(secret), Reply(text="Read it.")]}

    async with open_foreign_stage(tmp_path, name, peeking) as stage:
        parent = await stage.begin()
        ask = await stage.wait_for_ask()
        assert (ask.permission, ask.patterns) == ("external_directory", (f"{secret.parent}/*",))
        await stage.client.answer(ask.id, "reject")
        (task,) = await stage.wait_for_ends(parent)
        call = (await stage.answer_parts(task.session_id))[0]
        assert isinstance(call, ToolPart)
        assert isinstance(call.state, ToolFailed)
        assert not any("needle" in str(each.body) for each in stage.provider.requests)


@pytest.mark.soak
@pytest.mark.spec("X-03")
async def test_doctor_and_agents_show_the_program_and_what_it_offers(name: str, tmp_path: Path) -> None:
    async with open_foreign_stage(tmp_path, name, working, serve=False) as stage:
        shown = await stage.examine()
        listed = (await stage.desk.run("agents", "--json", env=stage.variables)).json
    line = " ".join(stage.program.command)
    assert shown == f"{line}, version {stage.program.version}, loads sessions and resumes sessions"
    (agent,) = [each for each in listed if each["name"] == "foreign"]
    assert (agent["mode"], agent["backend"]["command"]) == ("subagent", list(stage.program.command))
