"""What needs a person's leave, asked at a real terminal while the session works."""

import json
import signal
from pathlib import Path

import pytest

from asyncagents.testing.provider import Reply, Script, ToolUse
from tests.support.process.command_line import CTRL_C, Desk, open_desk, open_terminal
from tests.support.process.script import (
    ASK_EDITS,
    PERMISSION_PROMPT,
    read_project_file,
    script_steps,
    write_use,
)

WHICH = "do not answer) > "
WHY = "ends its turn > "


def beside_a_slow_one(asking: ToolUse) -> Script:
    """A step of two calls."""
    both = (asking, ToolUse("bash", {"command": "./slow"}))
    return {"go": [Reply(text="", tools=both), Reply(text="Done.")]}


def put_slow(desk: Desk) -> None:
    """A command that ends once a.txt is there."""
    script = desk.project / "slow"
    script.write_text(
        "#!/bin/sh\necho begun\nwhile ! test -e a.txt; do sleep 0.05; done\necho over\nexit 3\n"
    )
    script.chmod(0o755)


@pytest.mark.spec("X-06", "A-04")
async def test_an_edit_shows_its_diff_and_is_made_when_it_is_approved(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "one\ntwo\n"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go", env={"NO_COLOR": "1"}) as terminal:
            await terminal.until(PERMISSION_PROMPT)
            assert read_project_file(desk, "a.txt") is None
            await terminal.answer("y", to=PERMISSION_PROMPT)
            code = await terminal.end()
        made = read_project_file(desk, "a.txt")

    asked, _, after = terminal.text.partition(PERMISSION_PROMPT)
    assert code == 0
    assert made == "one\ntwo\n"
    assert "write asks for the permission 'edit': a.txt\n" in asked
    assert "  @@ -0,0 +1,2 @@\n  +one\n  +two\n" in asked
    assert "[a] always (all edits in this project)" in asked
    assert "write a.txt +2 -0\n" in after
    assert "+one" not in after
    assert after.index("write a.txt") < after.index("Done.")


@pytest.mark.spec("X-06", "A-04")
async def test_an_edit_allowed_with_always_is_asked_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"), write_use("b.txt", "2"))) as (
        desk,
        _,
    ):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("a", to=PERMISSION_PROMPT)
            code = await terminal.end()
        made = [read_project_file(desk, "a.txt"), read_project_file(desk, "b.txt")]

    assert code == 0
    assert made == ["1", "2"]
    assert terminal.text.count(PERMISSION_PROMPT) == 1


@pytest.mark.spec("X-06", "A-04")
async def test_a_rejection_with_a_message_lets_the_model_go_on(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, provider):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("maybe", to=PERMISSION_PROMPT)
            await terminal.answer("n", to=PERMISSION_PROMPT)
            await terminal.answer("use tabs", to=WHY)
            code = await terminal.end()
        made = read_project_file(desk, "a.txt")

    assert code == 0
    assert made is None
    assert "answer y, a, n, e, s or q; ? explains them\n" in terminal.text
    assert "They said: use tabs" in str(provider.requests[-1].body["messages"])
    assert "Done." in terminal.text


async def test_a_rejection_without_a_message_ends_the_turn(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, provider):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("n", to=PERMISSION_PROMPT)
            await terminal.answer("", to=WHY)
            await terminal.end()
        made = read_project_file(desk, "a.txt")

    assert made is None
    assert provider.asked == 1
    assert "write a.txt failed: The user rejected this tool call." in terminal.text


@pytest.mark.spec("X-06", "A-04")
async def test_the_arguments_are_edited_in_the_persons_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/mine/yours/" "$1"\n')
    editor.chmod(0o755)
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "mine"))) as (desk, provider):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go", env={"EDITOR": str(editor)}) as terminal:
            await terminal.answer("e", to=PERMISSION_PROMPT)
            code = await terminal.end()
        made = read_project_file(desk, "a.txt")

    assert code == 0
    assert made == "yours"
    assert "The user changed the arguments" in str(provider.requests[-1].body["messages"])


async def test_without_an_editor_the_arguments_are_typed(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "mine"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("e", to=PERMISSION_PROMPT)
            await terminal.answer("{oops", to="as JSON on one line > ")
            await terminal.answer("e", to=PERMISSION_PROMPT)
            given = json.dumps({"filePath": "b.txt", "content": "yours"})
            await terminal.answer(given, to="as JSON on one line > ")
            code = await terminal.end()
        made = [read_project_file(desk, "a.txt"), read_project_file(desk, "b.txt")]

    assert code == 0
    assert made == [None, "yours"]
    assert "the arguments are not JSON" in terminal.text


@pytest.mark.spec("X-06", "A-05")
async def test_questions_are_answered_by_number_or_with_words(tmp_path: Path) -> None:
    options = [{"label": "Red", "description": "like a rose"}, {"label": "Blue"}]
    questions = [
        {"question": "Which colour?", "options": options},
        {"question": "Which sizes?", "options": [{"label": "S"}, {"label": "L"}], "multiple": True},
        {"question": "For whom?"},
    ]
    script = script_steps(ToolUse("question", {"questions": questions}))
    async with (
        open_desk(tmp_path, script) as (desk, provider),
        open_terminal(desk, "run", "go") as terminal,
    ):
        await terminal.answer("7", to=WHICH)
        await terminal.answer("2", to=WHICH)
        await terminal.answer("1, 2", to=WHICH)
        await terminal.answer("for Ada", to=WHICH)
        code = await terminal.end()

    assert code == 0
    assert "  1. Red: like a rose\n  2. Blue\n" in terminal.text
    assert "the option is out of range: choose 1 to 2\n" in terminal.text
    assert "-> Blue / S, L / for Ada" in terminal.text
    told = str(provider.requests[-1].body["messages"])
    assert all(answer in told for answer in ("Blue", "S, L", "for Ada"))


@pytest.mark.spec("X-06", "A-04", "C-04")
async def test_an_ask_left_open_is_listed_and_answered_from_another_process(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("q", to=PERMISSION_PROMPT)
            code = await terminal.end()
        listed = await desk.run("asks")
        (ask,) = (await desk.run("asks", "--json")).json["asks"]
        answered = await desk.run("answer", ask["id"][:-4], "once")
        again = await desk.run("answer", ask["id"], "once")
        otherwise = await desk.run("answer", ask["id"], "reject")
        none = await desk.run("asks")
        made = read_project_file(desk, "a.txt")

    assert code == 3
    assert f"`asyncagents answer {ask['id']} once|always|reject` answers and continues" in terminal.text
    assert listed.code == 0
    row, _, *lasting = listed.out.splitlines()
    assert row.split() == [ask["id"], "just", "now", "write", "edit:", "a.txt", "go"]
    assert lasting == [
        "the answer `always` allows, in the project from then on:",
        f"{ask['id']}  all edits in this project",
    ]
    assert ask["tool"] == "write"
    assert ask["request"]["patterns"] == ["a.txt"]
    assert ask["lineage"][0]["title"] == "go"
    assert answered.code == 0
    assert answered.out == "Done.\n"
    assert made == "1"
    assert "write a.txt +1 -0" in answered.err
    assert again.code == 0
    assert again.out == "Done.\n"
    assert otherwise.code == 2
    assert ("was already answered otherwise" in otherwise.err) is True
    assert none.out == ""
    assert ("no open asks" in none.err) is True


@pytest.mark.spec("X-06", "A-04", "C-01")
async def test_an_ask_outlives_the_process_that_was_killed_over_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.until(PERMISSION_PROMPT)
            terminal.process.send_signal(signal.SIGKILL)
            assert await terminal.end() == -signal.SIGKILL
        (ask,) = (await desk.run("asks", "--json")).json["asks"]
        answered = await desk.run("answer", ask["id"], "once")
        made = read_project_file(desk, "a.txt")

    assert answered.code == 0
    assert answered.out == "Done.\n"
    assert made == "1"


@pytest.mark.spec("X-06", "A-04")
async def test_an_ask_answered_elsewhere_disappears_from_the_terminal(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"), write_use("b.txt", "2"))) as (
        desk,
        _,
    ):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.until(PERMISSION_PROMPT)
            (ask,) = (await desk.run("asks", "--json")).json["asks"]
            answered = await desk.run("answer", ask["id"], "once", "--detach")
            await terminal.until("no longer asked: it was answered elsewhere")
            await terminal.until("'edit': b.txt")
            terminal.press(b"y\n")
            code = await terminal.end()
        made = [read_project_file(desk, "a.txt"), read_project_file(desk, "b.txt")]

    assert answered.code == 0
    assert answered.out == ""
    assert code == 0
    assert made == ["1", "2"]


async def test_an_answer_leaves_the_session_to_the_process_that_runs_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path, beside_a_slow_one(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        put_slow(desk)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.until("begun")
            await terminal.until(PERMISSION_PROMPT)
            (ask,) = (await desk.run("asks", "--json")).json["asks"]
            answered = await desk.run("answer", ask["id"], "once")
            code = await terminal.end()

    assert answered.code == 0
    assert answered.out == ""
    assert f"answered; another process runs session {ask['session']}" in answered.err
    assert code == 0
    assert ("Done." in terminal.text) is True


@pytest.mark.spec("C-10", "X-06")
async def test_ctrl_c_at_the_question_cancels(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.until(PERMISSION_PROMPT)
            terminal.press(CTRL_C)
            code = await terminal.end()
        left = await desk.run("asks", "--all", "--json")

    assert code == 5
    assert left.json == {"asks": [], "calls": []}
    assert "no longer asked" not in terminal.text


@pytest.mark.spec("C-03", "X-06")
async def test_a_sibling_works_and_shows_its_output_while_a_person_is_asked(tmp_path: Path) -> None:
    async with open_desk(tmp_path, beside_a_slow_one(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        put_slow(desk)
        async with open_terminal(desk, "run", "go", env={"NO_COLOR": "1"}) as terminal:
            await terminal.until("bash: ./slow\n")
            await terminal.until("  begun\n")
            await terminal.answer("y", to=PERMISSION_PROMPT)
            code = await terminal.end()

    assert code == 0
    assert terminal.text.count("  begun\n") == 1
    assert terminal.text.count("  over\n") == 1
    assert "bash: ./slow -> exit 3\n" in terminal.text


@pytest.mark.spec("A-04", "X-06")
async def test_an_ask_of_a_child_names_its_lineage(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with desk.look() as runtime:
            root = await runtime.create_session(title="Ship it", directory=desk.project)
            child = await runtime.create_session(title="Notes", parent_id=root.id, directory=desk.project)
            await runtime.send(root.id, "hello", model="local/m")
            await runtime.send(child.id, "go", model="local/m")
        async with open_terminal(desk, "run", "--session", root.id, env={"NO_COLOR": "1"}) as terminal:
            await terminal.answer("y", to=PERMISSION_PROMPT)
            code = await terminal.end()
        made = read_project_file(desk, "a.txt")

    assert code == 0
    assert made == "1"
    assert "  for Ship it > Notes\n" in terminal.text
    assert "[Notes] write a.txt +1 -0\n" in terminal.text


async def test_input_typed_before_a_question_does_not_answer_it(tmp_path: Path) -> None:
    reply = Reply(text="one two three four", chunks=4, gap=0.2, tools=(write_use("a.txt", "1"),))
    async with open_desk(tmp_path, {"go": [reply, Reply(text="Done.")]}) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.until("one")
            terminal.press(b"y\n")
            await terminal.answer("n no thanks", to=PERMISSION_PROMPT)
            code = await terminal.end()
        made = read_project_file(desk, "a.txt")

    assert code == 0
    assert made is None


@pytest.mark.spec("X-06", "A-04")
async def test_an_ask_without_a_terminal_waits_and_prints_how_to_answer_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, provider):
        desk.configure(permission=ASK_EDITS)
        ran = await desk.run("run", "go", "--json")
        (wait,) = ran.json["waits"]
        rejected = await desk.run("answer", wait["ask"], "reject", "--message", "not today", "--json")

    assert ran.code == 3
    assert rejected.code == 0
    assert f"`asyncagents answer {wait['ask']} once|always|reject` answers and continues" in ran.err
    assert rejected.json["text"] == "Done."
    assert rejected.json["status"] == "done"
    assert "They said: not today" in str(provider.requests[-1].body["messages"])


async def test_a_detached_answer_with_other_arguments_is_used_by_the_next_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "mine"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        first = await desk.run("run", "go", "--json")
        ask_id = first.json["waits"][0]["ask"]
        given = json.dumps({"filePath": "a.txt", "content": "yours"})
        detached = await desk.run("answer", ask_id, "once", "--input", given, "--detach")
        before = read_project_file(desk, "a.txt")
        went_on = await desk.run("run", "--continue")
        made = read_project_file(desk, "a.txt")

    assert detached.code == 0
    assert detached.out == ""
    assert before is None
    assert f"`asyncagents run --session {first.json['session']}` continues" in detached.err
    assert went_on.code == 0
    assert went_on.out == "Done.\n"
    assert made == "yours"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("yes",), "answer once, always or reject"),
        (("once", "twice"), "answer once, always or reject"),
        (("once", "--message", "x"), "--message goes with reject"),
        (("reject", "--input", "{}"), "--input goes with once"),
        (("once", "--input", "[1]"), "the arguments must be a JSON object"),
    ],
)
async def test_an_answer_of_the_wrong_kind_is_refused(
    tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        ask_id = (await desk.run("run", "go", "--json")).json["waits"][0]["ask"]
        refused = await desk.run("answer", ask_id, *words)
        still = (await desk.run("asks", "--json")).json["asks"]

    assert refused.code == 2
    assert refused.out == ""
    assert len(still) == 1
    assert error in refused.err


async def test_an_answer_to_an_unknown_id_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        before = await desk.run("answer", "per_1", "once")
        await desk.run("run", "hello")
        after = await desk.run("answer", "per_1", "once")

    assert before.code == 2
    assert after.code == 2
    assert "error: no ask with id 'per_1'\nhint: `asyncagents asks --all`" in before.err
    assert "error: no ask with id 'per_1'\nhint: `asyncagents asks --all`" in after.err


async def test_a_question_is_answered_from_another_process(tmp_path: Path) -> None:
    questions = [{"question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}]}]
    async with open_desk(tmp_path, script_steps(ToolUse("question", {"questions": questions}))) as (
        desk,
        provider,
    ):
        ask_id = (await desk.run("run", "go", "--json")).json["waits"][0]["ask"]
        too_many = await desk.run("answer", ask_id, "Red", "Blue")
        answered = await desk.run("answer", ask_id, "Blue")

    assert too_many.code == 2
    assert ("1 question takes 1 answer" in too_many.err) is True
    assert answered.code == 0
    assert answered.out == "Done.\n"
    assert "Blue" in str(provider.requests[-1].body["messages"][-1])


@pytest.mark.spec("A-03", "X-06")
async def test_rules_of_a_session_come_from_the_command_line_and_a_deny_wins(tmp_path: Path) -> None:
    script = script_steps(write_use("a.txt", "1"), write_use("secret.txt", "2"))
    async with open_desk(tmp_path, script) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        ran = await desk.run("run", "go", "--deny", "write:secret*", "--allow", "edit")
        resumed = await desk.run("run", "--continue", "more", "--allow", "edit")
        made = [read_project_file(desk, "a.txt"), read_project_file(desk, "secret.txt")]

    assert ran.code == 0
    assert ran.out == "Done.\n"
    assert made == ["1", None]
    assert "write secret.txt failed: Not allowed here" in ran.err
    assert resumed.code == 2
    assert ("--allow and --deny are for a new session" in resumed.err) is True


async def test_a_turn_that_reaches_its_step_limit_prints_a_warning(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"), write_use("b.txt", "2"))) as (
        desk,
        _,
    ):
        desk.configure(agent={"build": {"steps": 1}})
        ran = await desk.run("run", "go")

    assert ran.code == 0
    assert "warning: the agent reached its limit of steps in one turn" in ran.err


async def test_an_open_ask_is_shown_at_the_terminal_of_the_next_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        first = await desk.run("run", "go", "--json")
        session_id = first.json["session"]
        async with open_terminal(desk, "run", "--session", session_id) as terminal:
            await terminal.answer("y", to=PERMISSION_PROMPT)
            code = await terminal.end()
        shown = await desk.run("show", session_id)
        left = await desk.run("asks", "--session", session_id, "--json")

    assert code == 0
    assert left.json["asks"] == []
    assert "  > write a.txt +1 -0\n" in shown.out
    assert "  >   +1\n" in shown.out


@pytest.mark.spec("Z-06", "X-06")
async def test_an_exact_line_can_be_allowed_always_and_the_keys_are_explained(tmp_path: Path) -> None:
    line = ToolUse("bash", {"command": "echo $(date +%Y) >> years"})
    async with open_desk(tmp_path, script_steps(line, line)) as (desk, _):
        async with open_terminal(desk, "run", "go", env={"NO_COLOR": "1", "COLUMNS": "80"}) as terminal:
            await terminal.answer("?", to=PERMISSION_PROMPT)
            await terminal.answer("a", to=PERMISSION_PROMPT)
            code = await terminal.end()
        years = read_project_file(desk, "years")

    assert code == 0
    assert (years or "").count("\n") == 2
    assert terminal.text.count("[a] always (this exact line)") == 2
    before_the_ask, _, _ = terminal.text.partition("bash asks for the permission")
    assert "bash: echo" not in before_the_ask
    assert "  a  yes, and from now on in this project: this exact line\n" in terminal.text
    assert "  q  leave it open and quit" in terminal.text


async def test_the_choices_are_bold_on_a_terminal_with_colours(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "1"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        async with open_terminal(desk, "run", "go") as terminal:
            await terminal.answer("y", to=PERMISSION_PROMPT)
            await terminal.end()
    assert (
        f"\x1b[1m[y] once  [a] always (all edits in this project)  [n] no  {PERMISSION_PROMPT}\x1b[0m"
        in terminal.text
    )
