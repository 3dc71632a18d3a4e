"""What several plugins leave of one thing, where the engine asks outside of a turn's steps."""

from typing import Any

import pytest

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.hooks import (
    NO_HOOKS,
    CompactionHints,
    ExpandedCommand,
    FinishedText,
    HookName,
    Hooks,
)
from asyncagents.plugins.api import Hook
from asyncagents.plugins.chain import HookChain
from asyncagents.plugins.guarded_call import GuardedRunner
from asyncagents.plugins.loaded_plugin import LoadedPlugin

SESSION = SessionId("ses_1")
PART = TextPart(id=PartId("prt_1"), session_id=SESSION, message_id=MessageId("msg_1"), text="review")


def chain(hook: HookName, *hooks: Hook) -> HookChain:
    plugins = []
    for number, each in enumerate(hooks):
        plugin = LoadedPlugin(
            name=f"p{number}", origin="test", scope="user", runner=GuardedRunner(), seconds=5
        )
        plugin.set_hooks({hook: each}, ())
        plugins.append(plugin)
    return HookChain(plugins)


def a_call() -> Call:
    return Call(
        id=CallId("cal_1"),
        session_id=SESSION,
        message_id=MessageId("msg_1"),
        part_id=PartId("prt_1"),
        call_id="c1",
        tool="bash",
        input={"command": "ls"},
        turn=1,
        created=1,
    )


@pytest.mark.spec("A-06")
async def test_hooks_add_context_to_a_summary_and_the_last_prompt_wins() -> None:
    async def adds(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["context"].append(f"about {input['sessionID']}")
        output["prompt"] = "first"

    def asks(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["context"].append("more")
        output["prompt"] = "second"

    async def spoils(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["context"] = "no list"

    there = chain("experimental.session.compacting", adds, asks, spoils)
    assert await there.compacting(SESSION) == CompactionHints(("about ses_1", "more"), "second")
    assert [report.hooks[0].failures for report in there.reports()] == [0, 0, 1]


@pytest.mark.spec("A-06")
async def test_a_command_is_changed_before_it_is_sent() -> None:
    async def shouts(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["parts"][0]["text"] = f"{input['command'].upper()} {input['arguments']}"

    async def empties(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["parts"][0]["text"] = " "

    commanded = ExpandedCommand(session_id=SESSION, command="review", arguments="a b", parts=(PART,))
    (part,) = await chain("command.execute.before", shouts, empties).command(commanded)
    assert isinstance(part, TextPart)
    assert part.text == "REVIEW a b"
    assert part.id == "prt_1"


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (("ask", "ask"), "ask"),
        (("allow", "ask"), "allow"),
        (("allow", "deny"), "deny"),
        (("deny", "allow"), "deny"),
        (("yes", "ask"), "ask"),
    ],
)
async def test_one_deny_of_a_hook_is_enough_and_an_unknown_status_is_ignored(
    said: tuple[str, ...], counts: str
) -> None:
    def saying(status: str) -> Hook:
        def hook(input: dict[str, Any], output: dict[str, Any]) -> None:
            output["status"] = status

        return hook

    there = chain("permission.ask", *(saying(each) for each in said))
    assert await there.permission(a_call(), Ask("bash", ("ls",))) == counts


async def test_changes_of_a_hook_to_its_input_do_not_reach_the_call() -> None:
    call = a_call()

    async def hook(input: dict[str, Any], output: dict[str, Any]) -> None:
        input["args"]["command"] = "rm"
        output["env"]["A"] = "1"

    assert await chain("shell.env", hook).shell_env(call, "/") == {"A": "1"}
    assert call.input == {"command": "ls"}


@pytest.mark.parametrize("there", [NO_HOOKS, HookChain([])])
async def test_hooks_without_plugins_change_nothing(there: Hooks) -> None:
    commanded = ExpandedCommand(session_id=SESSION, command="x", arguments="", parts=(PART,))
    assert there.names == frozenset()
    assert await there.compacting(SESSION) == CompactionHints()
    assert await there.command(commanded) == (PART,)
    assert await there.text_complete(PART) == FinishedText("review")
    assert await there.tool_before(a_call()) == {"command": "ls"}
    assert await there.permission(a_call(), Ask("bash")) == "ask"


def appending(note: str) -> Hook:
    def hook(input: dict[str, Any], output: dict[str, Any]) -> None:
        output["text"] += note

    return hook


def shouting(input: dict[str, Any], output: dict[str, Any]) -> None:
    output["text"] = output["text"].upper()


def telling_anew(input: dict[str, Any], output: dict[str, Any]) -> None:
    output["text"] = "[SYSTEM] instead"


@pytest.mark.spec("C-08")
@pytest.mark.parametrize(
    ("hooks", "continues"),
    [
        ([appending("\n\n[SYSTEM]: go on")], True),
        ([appending("[SYSTEM REMINDER] go on")], True),
        ([appending("\n\n(signed) [SYSTEM] go on")], False),
        ([appending(" [system] go on")], False),
        ([appending("\n\n(signed)"), appending("\n\n[SYSTEM] go on")], True),
        ([appending("\n\n[SYSTEM] go on"), appending("\n\n(signed)")], True),
        ([appending("\n\n[SYSTEM] go on"), shouting], False),
        ([telling_anew], False),
        ([appending("")], False),
    ],
)
async def test_text_that_a_plugin_appends_with_a_system_tag_continues_the_turn(
    hooks: list[Hook], continues: bool
) -> None:
    finished = await chain("experimental.text.complete", *hooks).text_complete(PART)
    assert finished.continues is continues
