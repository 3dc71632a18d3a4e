"""Pending calls at the command line: listed, given their results by worker scripts, decided, cancelled."""

import json
import re
from pathlib import Path

import pytest

from asyncagents.testing.provider import ToolUse
from tests.support.process.command_line import open_desk, open_terminal
from tests.support.process.script import DEPLOY, SHIP_TOOLS, run_until_parked, script_step

MAY = ToolUse("may_ship", {"version": "v2"})


@pytest.mark.spec("P-04", "P-05", "X-06")
async def test_a_result_is_submitted_after_the_run_has_ended(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY)) as (desk, provider):
        ran, session_id, (call_id,) = await run_until_parked(desk)
        listed = await desk.run("pending")
        given = await desk.run(
            "submit", call_id, "v2 is live", "--title", "Deployed", "--metadata", '{"n": 1}'
        )
        asked = provider.asked
        again = await desk.run(
            "submit", call_id, "-", "--title", "Deployed", "--metadata", '{"n": 1}', stdin="v2 is live\n"
        )
        other = await desk.run("submit", call_id, "v3 is live")
        failed = await desk.run("submit", call_id, "--error", "no route")
        went_on = await desk.run("run", "--session", session_id)
        after = await desk.run("pending")
        done = await desk.run("pending", "--status", "completed", "--json")

    assert (
        f"waiting: deploy waits for its result (queued v2), {call_id} of session {session_id}, until 2"
        in ran.err
    )
    assert f"hint: `asyncagents submit {call_id} RESULT` submits it" in ran.err
    assert f"`asyncagents run --session {session_id}` continues" in ran.err
    assert re.fullmatch(
        rf"{call_id}  just now  59 min left  deploy  queued v2  job-7  {session_id}\n", listed.out
    )
    assert given.code == 0
    assert given.out == ""
    assert asked == 1
    assert given.err == (
        f"accepted: deploy of session {session_id}; if no process serves it, "
        f"`asyncagents run --session {session_id}` does\n"
    )
    assert again.code == 0
    assert again.err.startswith("already accepted: ") is True
    assert other.code == failed.code == 4
    assert "already has another result" in other.err
    assert "v2 is live" in other.err
    assert went_on.code == 0
    assert went_on.out == "Done.\n"
    assert after.code == 0
    assert after.out == ""
    assert after.err == "no call waits for a result\n"
    (row,) = done.json
    assert row["result"] == {"title": "Deployed", "output": "v2 is live", "metadata": {"n": 1}}


@pytest.mark.spec("P-05")
async def test_a_result_refused_by_the_tool_leaves_the_call_waiting(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY)) as (desk, _):
        _, _, (call_id,) = await run_until_parked(desk)
        refused = await desk.run("submit", call_id, "2.0")
        distrusted = await desk.run("submit", call_id, "v2", env={"ASYNCAGENTS_TRUST": ""})
        ran = await desk.run("submit", call_id[:-4], "v2 is live", "--run")

    assert refused.code == 6
    assert "deploy does not take this result: a version begins with v" in refused.err
    assert distrusted.code == 1
    assert "are checked by the tool, which this process does not have" in distrusted.err
    assert f"hint: `asyncagents trust {desk.project}`" in distrusted.err
    assert ran.code == 0
    assert ran.out == "Done.\n"


async def test_an_invalid_submission_is_refused_with_one_sentence(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY)) as (desk, _):
        empty = await desk.run("submit", "tool_nowhere", "x")
        _, session_id, (call_id,) = await run_until_parked(desk)
        tries = [
            await desk.run("submit", *words)
            for words in (
                ("tool_nowhere", "x"),
                (call_id,),
                (call_id, "v2", "--metadata", '{"a":' * 15_000 + "1" + "}" * 15_000),
                (call_id, "bad", "--error", "--title", "T"),
            )
        ]
        nothing = await desk.run("pending", "--session", "ses_nowhere")
        still = await desk.run("pending", "--session", session_id[:20], "--json")

    for ran in (empty, *tries, nothing):
        assert ran.code == 2
        assert ran.out == ""
        assert ran.err.startswith("error: ")
        assert "Traceback" not in ran.err
    assert "no pending call with id 'tool_nowhere'" in empty.err
    assert [row["id"] for row in still.json] == [call_id]


@pytest.mark.spec("P-14")
async def test_a_pending_call_is_cancelled_as_a_task_is(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY, MAY)) as (desk, _):
        _, session_id, (first, second) = await run_until_parked(desk)
        ended = await desk.run("cancel", first, second[:-3], "--json")
        again = await desk.run("cancel", first)
        unknown = await desk.run("cancel", "tool_nowhere")
        asks = await desk.run("asks")
        failed = await desk.run("pending", "--status", "failed", "--json")
        went_on = await desk.run("run", "--session", session_id)
        late = await desk.run("submit", first, "v2")

    assert [(row["id"], row["kind"], row["ended"]) for row in ended.json] == [
        (first, "call", [first]),
        (second, "call", [second]),
    ]
    assert ended.code == 0
    assert again.code == 0
    assert unknown.code == 2
    assert late.code == 4
    assert "no open asks" in asks.err
    assert [row["error"] for row in failed.json] == ["cancelled", "cancelled"]
    assert went_on.code == 0
    assert went_on.out == "Done.\n"


@pytest.mark.spec("P-14")
async def test_a_cancel_after_which_the_session_continues_names_the_command_that_runs_it(
    tmp_path: Path,
) -> None:
    other = ToolUse("deploy", {"version": "v3"})
    async with open_desk(tmp_path, script_step(DEPLOY, other)) as (desk, _):
        _, session_id, (first, second) = await run_until_parked(desk)
        ends = [await desk.run("cancel", call_id) for call_id in (first, second, second)]
        went_on = await desk.run("run", "--session", session_id)

    assert [each.code for each in ends] == [0, 0, 0]
    hint = f"hint: no process serves the session: `asyncagents run --session {session_id}` continues it\n"
    assert [each.err for each in ends] == ["", hint, hint]
    assert went_on.out == "Done.\n"


@pytest.mark.spec("A-04", "X-06")
async def test_an_approval_names_its_approvers_and_is_answered_by_name(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(MAY)) as (desk, provider):
        ran, session_id, (call_id,) = await run_until_parked(desk)
        listed = await desk.run("asks")
        in_json = (await desk.run("asks", "--json")).json
        pending = (await desk.run("pending", "--json")).json
        sessions = await desk.run("sessions")
        why = await desk.run("why", session_id)
        (row,) = in_json["asks"]
        perhaps = await desk.run("answer", row["id"], "perhaps")
        nobody = await desk.run("answer", "tool_", "approve")
        submitted = await desk.run("submit", row["id"], "yes")
        decided = await desk.run("answer", row["id"], "approve", "--message", "after lunch", "--by", "alice")
        again = await desk.run(
            "answer", row["id"], "approve", "--message", "after lunch", "--by", "bob", "--detach"
        )
        other = await desk.run("answer", row["id"], "reject")
        shown = await desk.run("show", session_id)

    assert f"waiting: may_ship asks release managers: May v2 go out?, {row['id']} of session" in ran.err
    assert f"`asyncagents answer {row['id']} approve|reject` answers and continues" in ran.err
    assert "may_ship  release managers: May v2 go out? (3 h left)" in listed.out
    assert in_json["calls"] == []
    assert row["who"] == "release managers"
    assert row["kind"] == "async"
    assert row["call"] == call_id
    assert pending[0]["who"] == "release managers"
    assert pending[0]["ask"] == row["id"]
    assert re.search(r"\sasks\s", sessions.out)
    assert 'It waits for release managers to decide "May v2 go out?"' in why.out.replace("'", '"')
    assert nobody.code == 2
    assert ("no ask with id 'tool_'" in nobody.err) is True
    assert perhaps.code == 2
    assert ("choose one of the options: Approve, Reject" in perhaps.err) is True
    assert submitted.code == 2
    assert (f"`asyncagents answer {row['id']}`" in submitted.err) is True
    assert decided.code == 0
    assert decided.out == "Done.\n"
    assert "Approved by alice: after lunch" in str(provider.requests[-1])
    assert again.code == 0
    assert other.code == 2
    assert ("by alice: Approve, after lunch" in other.err) is True
    assert "Approved by alice" in shown.out


async def test_an_approval_is_decided_at_the_terminal_with_a_remark(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(MAY)) as (desk, provider):
        folder = desk.project / ".asyncagents" / "tools"
        folder.mkdir(parents=True)
        (folder / "ship.py").write_text(SHIP_TOOLS)
        async with open_terminal(desk, "run", "go", env={"NO_COLOR": "1"}) as terminal:
            await terminal.answer("2", to="(q: quit) > ")
            await terminal.answer("not on a Friday", to="or Enter alone > ")
            code = await terminal.end()

    assert code == 0
    assert "may_ship asks release managers, until 2" in terminal.text
    assert "Rejected: not on a Friday" in str(provider.requests[-1])


async def test_a_wait_is_shown_and_ended_by_a_prompt(tmp_path: Path) -> None:
    wait = ToolUse("wait", {"seconds": 3600, "reminder": "Look at the build."})
    async with open_desk(tmp_path, script_step(wait)) as (desk, provider):
        ran, session_id, (call_id,) = await run_until_parked(desk)
        listed = await desk.run("pending")
        why = await desk.run("why", session_id)
        ended = await desk.run("run", "--session", session_id, "Never mind.")
        shown = await desk.run("show", session_id)

    assert "wait until 2" in ran.err
    assert "UTC: Look at the build.\n" in ran.err
    assert "waiting: wait waits for its time (until 2" in ran.err
    assert f"then, `asyncagents run --session {session_id}` continues" in ran.err
    assert f"{call_id}  just now  59 min left  wait  until 2" in listed.out
    assert "It waits, at most 35" in why.out
    assert ended.code == 0
    assert "The wait ended early: new input arrived." in json.dumps(provider.requests[-1].body)
    assert "wait 3600 s -> The wait ended early" in shown.out
