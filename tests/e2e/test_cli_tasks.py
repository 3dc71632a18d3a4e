"""Tasks at the terminal: seen as a tree, watched, explained, ended and followed up, by real processes."""

import asyncio
import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import TextPart
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.support.process.command_line import CTRL_C, open_desk, open_terminal, read_until, wait_for_exit
from tests.support.process.script import FAN_OUT, launch_use, list_task_trees

HANG = Reply(text="never", hang_at=1)
WRITES = ToolUse(name="bash", args={"command": "touch a.txt", "description": "make a file"})
LOOKS = ToolUse(name="list", args={"path": "."})


STUCK: Script = {
    "Fan out": [
        Reply(text="", tools=(launch_use("Read A", "stay"), launch_use("Read B", "stay"))),
        Reply(text="Waiting."),
        *[Reply(text="All are in.")] * 2,
    ],
    "stay": [Reply(text="", tools=(LOOKS,)), HANG],
}
ASKED = 6
"""The root twice, each of its tasks twice."""


async def stuck(provider: Provider) -> None:
    """Until both tasks are asked, for ever."""
    await provider.wait_for(lambda: provider.asked >= ASKED and provider.active == 2)


@pytest.mark.spec("T-05", "X-09")
async def test_a_tree_is_seen_explained_and_ended_while_another_process_works(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        [root] = await list_task_trees(desk)
        first, second = root["tasks"]
        drawn = await desk.run("tasks")
        listed, told = await desk.run("sessions"), await desk.run("show")
        why = await desk.run("why", root["session"])
        reasons = (await desk.run("why", root["session"], "--json")).json
        shown = await desk.run("task", first["session"].removeprefix("ses_"))
        whole = (await desk.run("task", first["session"], "--json")).json
        lines, snapshots = await desk.start("tasks", "--watch"), await desk.start("tasks", "-w", "--json")
        one = await desk.run("cancel", first["session"])
        again = await desk.run("cancel", first["session"])
        batch = await desk.run("cancel", first["task"]["batchId"], "--json")
        watched, streamed, ran = [await wait_for_exit(each) for each in (lines, snapshots, worker)]
        [after] = await list_task_trees(desk)

    states = [root["state"], first["state"], second["state"]]
    assert states == ["waiting", "streaming", "streaming"]
    assert first["task"]["progress"]["toolCalls"] == 1
    assert first["tokens"]["output"] == 5
    assert [line[:3] for line in drawn.out.splitlines()] == ["Fan", "├─ ", "└─ "]
    assert "waits for 2 tasks" in drawn.out
    assert listed.out.split()[1] == "tasks"
    assert told.out.splitlines()[1].split()[2] == "tasks"
    assert "tasks: It rests until 2 background tasks of its own end." in why.out
    assert why.out.count("working: It waits for its model") == 2
    assert [each["code"] for each in reasons["below"]] == ["working", "working"]
    assert "launched   by build" in shown.out
    assert whole["sessionID"] == first["session"]
    assert whole["why"]["code"] == "working"
    assert whole["status"] == "running"
    assert one.out == f"cancelled: task {first['session']}, {first['task']['description']}\n"
    assert again.out.startswith("nothing to cancel: task ")
    [ending] = batch.json
    assert ending["kind"] == "batch"
    assert ending["ended"] == [second["session"]]
    assert ending["stopped"] is True
    assert [each["task"]["endedBy"] for each in after["tasks"]] == ["user", "user"]
    assert watched.code == 0
    assert streamed.code == 0
    assert ran.code == 0
    assert after["state"] == "idle"
    assert "cancelled by user" in watched.out
    pictures = [json.loads(line) for line in streamed.out.splitlines()]
    assert pictures[-1] == [after]
    assert ran.out.splitlines()[-1] == "All are in."
    assert ran.err.count("cancelled after") == 2


@pytest.mark.spec("T-08", "T-10")
async def test_a_follow_up_is_worked_on_until_the_tree_rests(tmp_path: Path) -> None:
    async with open_desk(tmp_path, FAN_OUT) as (desk, _):
        ran = await desk.run("run", "Fan out", "--json")
        [root] = await list_task_trees(desk)
        task_id = root["tasks"][0]["session"]
        resumed = await desk.run("resume", task_id[:-3], "And more?", "--key", "k")
        twice = await desk.run("resume", task_id, "And more?", "--key", "k")
        no_task = await desk.run("resume", root["session"], "And more?")
        silent = await desk.run("resume", task_id)
        [after] = await list_task_trees(desk)
        drawn = await desk.run("tasks")
        left = await desk.run("resume", task_id, "And more?", "--detach")
        why = await desk.run("why", task_id, "--json")

    assert ran.code == 0
    assert ran.json["text"] == "All are in."
    assert ran.json["status"] == "done"
    assert ran.json["tokens"]["output"] % 5 == 0
    assert resumed.code == 0
    assert resumed.out == "It is 2.\n"
    assert twice.code == 0
    assert twice.out == "It is 2.\n"
    task = next(each["task"] for each in after["tasks"] if each["session"] == task_id)
    assert task["result"] == "It is 2."
    assert task["resumeCount"] == 1
    assert task["status"] == "completed"
    assert after["state"] == "idle"
    assert "(resumed)" in drawn.out
    assert no_task.code == 2
    assert ("is not a task" in no_task.err) is True
    assert silent.code == 2
    assert ("the prompt is empty" in silent.err) is True
    assert left.code == 0
    assert left.out == ""
    assert "no process runs it until" in left.err
    assert why.json["code"] in ("ready", "no_worker")


async def test_an_answer_to_a_task_is_left_to_the_process_that_works_on_its_tree(tmp_path: Path) -> None:
    script: Script = {
        **STUCK,
        "Fan out": [
            Reply(text="", tools=(launch_use("Write", "write"), launch_use("Read B", "stay"))),
            *[Reply(text="Waiting.")] * 3,
        ],
        "write": [Reply(text="", tools=(WRITES,)), Reply(text="Written.")],
    }
    async with open_desk(tmp_path, script) as (desk, provider):
        desk.configure(permission={"bash": "ask"})
        worker = await desk.start("run", "Fan out", "--format", "stream-json")
        await read_until(worker, '"permission.asked"')
        await provider.wait_for(lambda: provider.asked >= ASKED - 1 and provider.active == 1)
        [root] = await list_task_trees(desk)
        [ask] = (await desk.run("asks", "--json")).json["asks"]
        answered = await desk.run("answer", ask["id"], "once")
        await provider.wait_for(lambda: provider.asked >= ASKED + 1)
        ending = await desk.run("cancel", root["tasks"][1]["session"])
        ran = await wait_for_exit(worker)
        [after] = await list_task_trees(desk)

    assert answered.code == 0
    assert answered.out == ""
    assert f"answered; another process runs session {root['session']}" in answered.err
    assert ending.code == 0
    assert ran.code == 0
    assert [each["state"] for each in after["tasks"]] == ["completed", "cancelled"]
    assert (desk.project / "a.txt").exists()


async def test_a_failed_task_is_reported_once_in_words_for_people(tmp_path: Path) -> None:
    waits = ToolUse(name="task", args={"description": "S", "prompt": "fail", "subagent_type": "general"})
    unknown = ToolUse(name="task", args={"description": "T", "prompt": "fail", "subagent_type": "nobody"})
    script: Script = {
        "go": [Reply(text="", tools=(waits, unknown)), Reply(text="Well.")],
        "fail": [Reply(status=400)],
    }
    async with open_desk(tmp_path, script) as (desk, _):
        ran = await desk.run("run", "go")

    assert ran.code == 0
    assert ran.out == "Well.\n"
    assert ran.err.count('task "S" (general) failed after') == 1
    assert 'Agent "nobody" is unknown' in ran.err
    assert "<task_" not in ran.err


@pytest.mark.spec("C-10")
async def test_ctrl_c_ends_the_tasks_too(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        async with open_terminal(desk, "run", "Fan out") as terminal:
            await stuck(provider)
            terminal.press(CTRL_C)
            code = await terminal.end()
        await provider.wait_for(lambda: provider.active == 0)
        [root] = await list_task_trees(desk)

    assert code == 5
    assert [each["task"]["status"] for each in root["tasks"]] == ["cancelled", "cancelled"]
    assert "cancelled: session ses_" in terminal.text
    assert provider.asked == ASKED


async def test_a_killed_run_goes_on_to_its_last_answer(tmp_path: Path) -> None:
    hang = Reply(text="It is 1.", hang_at=1, times=2)
    script = {**FAN_OUT, "go": [hang, Reply(text="It is 1.")]}
    async with open_desk(tmp_path, script) as (desk, provider):
        worker = await desk.start("run", "Fan out", "--key", "k")
        await provider.wait_for(lambda: provider.asked >= 4 and provider.active == 2)
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        left = await desk.run("tasks")
        went_on = await desk.run("run", "Fan out", "--key", "k", "--json")
        async with desk.look() as runtime:
            entries = await runtime.messages(went_on.json["session"])

    tasks = [line for line in left.out.splitlines() if "Read" in line]
    assert [" left " in line for line in tasks] == [True, True]
    assert went_on.code == 0
    assert went_on.json["text"] == "All are in."
    texts = [part.text for entry in entries for part in entry.parts if isinstance(part, TextPart)]
    told = [text for text in texts if "finished in" in text]
    assert len(told) == 2


async def test_a_cancel_reports_a_process_that_does_not_stop(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        [root] = await list_task_trees(desk)
        worker.send_signal(signal.SIGSTOP)
        cancelled = await desk.run("cancel", root["session"])
        worker.send_signal(signal.SIGCONT)
        ran = await wait_for_exit(worker)

    assert cancelled.code == 3
    assert cancelled.out.startswith("cancelled: session ses_")
    assert "with 2 tasks below it" in cancelled.out
    assert "a process has not stopped yet" in cancelled.err
    assert ran.code == 5
    assert ran.out == "Waiting.\n"


@pytest.mark.spec("X-06")
async def test_wrong_ids_are_explained_and_change_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path, FAN_OUT) as (desk, provider):
        nowhere = [
            await desk.run(*words, "x")
            for words in (("task",), ("why",), ("cancel",), ("resume", "ses_x"), ("tasks", "ses_x"))
        ]
        made = desk.data.exists()
        nothing = await desk.run("tasks")
        await desk.run("run", "Fan out")
        asked = provider.asked
        [root] = await list_task_trees(desk)
        several = await desk.run("task", root["session"][:6])
        wrong = await desk.run("cancel", root["session"], "ses_zzz")
        batch = await desk.run("cancel", "bat_zzz")
        empty = await desk.run("cancel", "")

    assert not made
    assert [ran.code for ran in nowhere[:4]] == [2, 2, 2, 2]
    assert all("Traceback" not in ran.err for ran in nowhere)
    assert nothing.code == 0
    assert nothing.out == ""
    assert "no tasks" in nothing.err
    assert [each.code for each in (several, wrong, batch, empty)] == [2, 2, 2, 2]
    assert "write more of the id" in several.err
    assert "no task and no session with id 'ses_zzz'" in wrong.err
    assert wrong.out == ""
    assert provider.asked == asked


async def test_the_tree_is_drawn_in_place_on_a_terminal(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        async with open_terminal(desk, "tasks", "--watch") as terminal:
            await terminal.until("waits for 2 tasks")
            [root] = await list_task_trees(desk)
            await desk.run("cancel", root["session"])
            code = await terminal.end()
        async with open_terminal(desk, "tasks") as once:
            await once.end()
        await wait_for_exit(worker)

    assert code == 0
    assert "\x1b[1A" in terminal.text  # it goes up, and draws over what was there
    assert "cancelled by user" in terminal.text
    assert "\x1b[2m" in once.text  # what has ended is faint


async def test_texts_of_agents_send_no_control_codes_to_the_terminal(tmp_path: Path) -> None:
    evil = launch_use("A\x1b[2J\nB", "go")
    script = {
        **FAN_OUT,
        "Fan out": [Reply(text="", tools=(evil,)), Reply(text="Waiting."), Reply(text="In.")],
    }
    async with open_desk(tmp_path, script) as (desk, _):
        ran = await desk.run("run", "Fan out")
        drawn = await desk.run("tasks")
        [root] = await list_task_trees(desk)
        shown = await desk.run("task", root["tasks"][0]["session"])

    assert ran.code == 0
    assert len(drawn.out.splitlines()) == 2
    assert "\x1b" not in drawn.out + shown.out + ran.err


async def test_watching_a_resting_tree_ends_at_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path, FAN_OUT) as (desk, _):
        await desk.run("run", "Fan out")
        async with asyncio.timeout(30):
            watched = await desk.run("tasks", "--watch")
    assert watched.code == 0
    assert watched.out.count("completed") == 2


async def test_ctrl_c_ends_only_the_watching(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        async with open_terminal(desk, "tasks", "--watch") as terminal:
            await terminal.until("waits for 2 tasks")
            terminal.press(CTRL_C)
            code = await terminal.end()
        [root] = await list_task_trees(desk)
        await desk.run("cancel", root["session"])
        await wait_for_exit(worker)

    assert code == 130
    assert "Traceback" not in terminal.text
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")  # the cursor is back
    assert [each["state"] for each in root["tasks"]] == ["streaming", "streaming"]


@pytest.mark.spec("X-09")
async def test_an_ask_of_a_task_is_shown_at_its_root_and_answered(tmp_path: Path) -> None:
    script = {
        "Fan out": [
            Reply(text="", tools=(launch_use("Write A", "go"),)),
            Reply(text="Waiting."),
            Reply(text="In."),
        ],
        "go": [Reply(text="", tools=(WRITES,)), Reply(text="Written.")],
    }
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission={"bash": "ask"})
        ran = await desk.run("run", "Fan out", "--json")
        [root] = await list_task_trees(desk)
        why = (await desk.run("why", root["session"], "--json")).json
        [wait] = ran.json["waits"]
        answered = await desk.run("answer", wait["ask"], "once")
        [after] = await list_task_trees(desk)

    assert ran.code == 3
    assert ran.json["status"] == "waiting"
    assert ran.json["text"] == "Waiting."
    assert [root["state"], root["tasks"][0]["state"]] == ["waiting", "asks"]
    assert why["code"] == "tasks"
    assert why["below"][0]["code"] == "permission"
    assert why["below"][0]["on"] == [wait["ask"]]
    assert answered.code == 0
    assert answered.out.splitlines()[-1] == "In."
    assert [after["state"], after["tasks"][0]["state"]] == ["idle", "completed"]
    assert (desk.project / "a.txt").exists()


async def test_a_call_that_waits_for_a_task_is_not_listed_as_an_external_wait(tmp_path: Path) -> None:
    sync = ToolUse(name="task", args={"description": "Write A", "prompt": "go", "subagent_type": "general"})
    script = {
        "Do": [Reply(text="", tools=(sync,)), Reply(text="Done.")],
        "go": [Reply(text="", tools=(WRITES,)), Reply(text="Written.")],
    }
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission={"bash": "ask"})
        ran = await desk.run("run", "Do", "--json")
        [root] = await list_task_trees(desk)
        why = await desk.run("why", root["session"])

    assert ran.code == 3
    assert [wait["tool"] for wait in ran.json["waits"]] == ["bash"]
    assert [line.split(":")[0].strip() for line in why.out.splitlines()[1::2]] == ["task", "permission"]


@pytest.mark.spec("X-09")
async def test_a_tree_cancelled_while_no_process_works_has_no_work_left(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        [root] = await list_task_trees(desk)
        one = await desk.run("cancel", root["tasks"][0]["session"])  # its end wakes the root
        all_of_it = await desk.run("cancel", root["session"])
        watched = await desk.run("tasks", "--watch", root["session"])
        why = (await desk.run("why", root["session"], "--json")).json

    assert [each["state"] for each in root["tasks"]] == ["left", "left"]
    assert one.code == 0
    assert f"`asyncagents run --session {root['session']}` continues it" in one.err
    assert all_of_it.code == 0
    assert all_of_it.err == ""
    assert watched.code == 0
    assert watched.out.count("cancelled by user") == 2
    assert why["code"] in ("idle", "aborted")


async def test_a_task_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    async with open_desk(tmp_path, FAN_OUT) as (desk, _):
        await desk.run("run", "Fan out")
        [root] = await list_task_trees(desk)
        lost, kept = (each["session"] for each in root["tasks"])
        with closing(sqlite3.connect(desk.data / "asyncagents.db")) as database, database:
            database.execute("UPDATE session SET info = ? WHERE id = ?", (b'{"id":', lost))
        seen = await desk.run("tasks")
        why = await desk.run("why", lost)

    assert seen.code == 0
    assert (kept in seen.out) is True
    assert (lost in seen.out) is False
    assert f"warning: task={lost} action=show is damaged" in seen.err
    assert why.code == 0
    assert ("unreadable: Its rows cannot be read" in why.out) is True


@pytest.mark.spec("X-09")
async def test_after_a_kill_why_names_one_command_and_a_script_stops_watching(tmp_path: Path) -> None:
    async with open_desk(tmp_path, STUCK) as (desk, provider):
        worker = await desk.start("run", "Fan out")
        await stuck(provider)
        worker.kill()
        await wait_for_exit(worker)
        [root] = await list_task_trees(desk)
        why = await desk.run("why", root["session"])
        child = await desk.run("why", root["tasks"][0]["session"])
        watched = await desk.run("tasks", "--watch")
        streamed = await desk.run("tasks", "--watch", "--json")
        async with open_terminal(desk, "tasks", "--watch") as terminal:
            await terminal.until(again_line := f"run --session {root['session']}` continues")
            terminal.press(CTRL_C)
            await terminal.end()

    again = f"`asyncagents run --session {root['session']}`"
    assert why.out.count("no_worker: ") == 2
    assert why.out.count("asyncagents run") == why.out.count(again) == child.out.count(again) == 1
    assert watched.code == 3
    assert streamed.code == 3
    assert watched.err.count(again) == 1
    assert "no process does the work that is left" in watched.err
    picture, _, _ = terminal.text.partition("warning: ")
    assert picture.endswith("\x1b[2K")  # the picture makes room for the warning, and is drawn below it
    assert again_line in terminal.text
    assert json.loads(streamed.out.splitlines()[-1])[0]["tasks"][0]["state"] == "left"
