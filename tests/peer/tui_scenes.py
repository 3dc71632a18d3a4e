"""What a person does at OpenCode's terminal UI, and what must be on the screen then: of any server."""

import asyncio

from tests.peer.screen import PATIENCE
from tests.peer.tui_script import STORY, WORDS
from tests.peer.tui_stage import Play


async def an_answer_is_seen_to_grow(play: Play) -> None:
    await play.says(STORY)
    await play.screen.shows("word3", "esc interrupt", without=("word39",))
    seen = await play.rests("word39", "A title", "Build · The model")
    assert all(word in seen for word in WORDS.split())


async def tools_and_todos_are_shown(play: Play) -> None:
    await play.says("list and note")
    await play.rests(
        "$ printf", "shown-by-a-tool", "# Todos", "[✓] first thing", "[•] second thing", "tools are done"
    )


async def files_are_seen_as_they_are_read_and_changed(play: Play) -> None:
    await play.says("look and change")
    await play.rests("→ Read README.md", "← Edit README.md", "+ With a thread in it.", "looked and changed")


async def a_permission_is_given_once(play: Play) -> None:
    await play.says("touch it once")
    await play.screen.shows(
        "Permission required", "$ touch asked-once", "Allow once", "Allow always", "Reject"
    )
    assert not (play.ground.project / "asked-once").exists()
    await play.screen.press("Enter")
    await play.rests("touched once")
    assert (play.ground.project / "asked-once").exists()


async def a_permission_is_given_for_ever(play: Play) -> None:
    await play.says("touch it for ever")
    await play.screen.shows("Permission required", "$ touch asked-twice")
    await play.screen.press("Right", "Enter")
    await play.screen.shows("Always allow", "- touch ")  # any file for OpenCode, this one for us
    await play.screen.press("Enter")
    await play.rests("touched twice")
    (play.ground.project / "asked-twice").unlink()
    await play.says("touch it unasked")
    await play.rests("touched thrice")
    assert (play.ground.project / "asked-twice").exists()


async def a_question_is_answered(play: Play) -> None:
    await play.says("please ask")
    await play.screen.shows("Which colour?", "1. Red", "2. Blue", "a cold one", "Type your own answer")
    await play.screen.press("2")
    await play.rests("# Questions", "Which colour?", "Blue", "now it is known")


async def a_child_is_opened_and_left(play: Play) -> None:
    await play.says("delegate this")
    await play.rests("✓ General Task — look around", "view subagents", "the child has answered")
    await play.screen.press("C-x", "Down")
    await play.screen.shows("child work", "here speaks the child", "General (1 of 1)", "Parent")
    await play.screen.press("Up")
    await play.rests("the child has answered")


async def a_wish_of_a_child_is_refused_with_a_reason(play: Play) -> None:
    await play.says("delegate a wish")
    await play.screen.shows("Permission required", "$ mkdir wished")
    await play.screen.press("Left", "Enter")
    await play.screen.shows("Reject permission", "Tell OpenCode what to do differently")
    await play.screen.type("a file will do")
    await play.screen.press("Enter")
    await play.rests("the parent has heard")
    assert not (play.ground.project / "wished").exists()
    assert any("a file will do" in str(seen.body["messages"][-1]) for seen in play.provider.requests)


async def an_answer_is_interrupted(play: Play) -> None:
    await play.says("hang on")
    await play.screen.shows("it begins", "esc interrupt")
    await play.screen.press("Escape")
    await play.screen.shows("again to interrupt")
    await play.screen.press("Escape")
    await play.rests("it begins", "· interrupted")


async def a_command_of_the_shell_is_run(play: Play) -> None:
    await play.screen.type("!printf 'by-hand-%s' it-goes")
    await play.screen.shows("Shell", "exit shell")
    await play.screen.press("Enter")
    await play.rests("$ printf 'by-hand-%s'", "by-hand-it-goes")


async def a_slash_command_is_run(play: Play) -> None:
    await play.says("/greet Ada")
    await play.rests("Say hello to Ada.", "a plain answer")


async def a_file_is_named_and_sent_along(play: Play) -> None:
    await play.screen.type("look at @READ")
    await play.screen.shows("┃ README.md")
    await play.screen.press("Enter")
    await play.screen.shows("look at @README.md")
    await play.screen.press("Enter")
    await play.screen.shows("File  README.md")

    def is_told() -> bool:
        told = [message for seen in play.provider.requests for message in seen.body["messages"]]
        return any(each["role"] == "user" and "# A project" in str(each["content"]) for each in told)

    async with asyncio.timeout(PATIENCE):
        await play.provider.wait_for(is_told)
    await play.rests("File  README.md")


async def a_message_is_undone_and_done_again(play: Play) -> None:
    made = play.ground.project / "made.txt"
    await play.says("write a file")
    await play.rests("# Wrote made.txt", "made by the model", "it is written")
    assert made.read_text() == "made by the model\n"
    await play.screen.type("/undo")
    await play.screen.shows("Undo previous message")
    await play.screen.press("Enter")
    await play.screen.shows(
        "1 message reverted", "/redo to restore", "made.txt -1", without=("it is written",)
    )
    assert not made.exists()
    await play.screen.press("C-x", "r")
    await play.rests("# Wrote made.txt", "it is written")
    await play.screen.shows(without=("message reverted",))
    assert made.read_text() == "made by the model\n"


async def a_session_is_renamed(play: Play) -> None:
    await play.screen.press("C-r")
    await play.screen.shows("Rename Session")
    await play.screen.press("C-u")
    await play.says("A name of my own")
    await play.rests("A name of my own")
    await play.screen.shows(without=("Rename Session",))


async def a_session_is_summed_up(play: Play) -> None:
    await play.screen.type("/compact")
    await play.screen.shows("Compact session")
    await play.screen.press("Enter")
    await play.rests("Compaction", "What was said so far.")


async def a_child_is_sent_to_the_background(play: Play) -> None:
    await play.screen.press("C-x", "n")
    await play.screen.shows("Ask anything")
    await play.says("delegate slowly")
    await play.screen.shows("General Task — take time", "ctrl+b background")
    await play.screen.press("C-b")
    await play.screen.shows("General Task (background) — take time", "meanwhile the parent speaks")
    await play.rests("✓ General Task (background) — take time", "a plain answer")


async def another_session_is_opened_from_the_list(play: Play) -> None:
    await play.screen.press("C-x", "l")
    await play.screen.shows("Sessions", "A name of my own", "● ")
    await play.screen.type("of my own")
    await play.screen.shows("A name of my own", without=("● ",))
    await play.screen.press("Enter")
    await play.rests("What was said so far.")


async def another_project_has_sessions_of_its_own(play: Play) -> None:
    other = await play.stage.attach(play.ground.other)
    await other.type("!pwd")
    await other.shows("exit shell")
    await other.press("Enter")
    await other.shows("$ pwd", str(play.ground.other))
    await other.press("C-x", "l")
    await other.shows("Sessions", without=("A name of my own",))


SCENES = (
    an_answer_is_seen_to_grow,
    tools_and_todos_are_shown,
    files_are_seen_as_they_are_read_and_changed,
    a_permission_is_given_once,
    a_permission_is_given_for_ever,
    a_question_is_answered,
    a_child_is_opened_and_left,
    a_wish_of_a_child_is_refused_with_a_reason,
    an_answer_is_interrupted,
    a_command_of_the_shell_is_run,
    a_slash_command_is_run,
    a_file_is_named_and_sent_along,
    a_message_is_undone_and_done_again,
    a_session_is_renamed,
    a_session_is_summed_up,
    a_child_is_sent_to_the_background,
    another_session_is_opened_from_the_list,
    another_project_has_sessions_of_its_own,
)
