"""Tools of MCP servers in a session: used, asked for, lost in the middle, and found again."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import McpConfig
from asyncagents.domain.conversation.part import (
    ResourceSource,
    TextSpan,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolRunning,
)
from asyncagents.domain.conversation.part_input import FileInput
from asyncagents.domain.event import PartUpdated, PermissionAsked
from asyncagents.errors import InvalidInput
from asyncagents.errors import ToolError as Refused
from asyncagents.llm.model import Attachment, ToolTurn, UserTurn
from asyncagents.llm.scripted import Script, call, say
from asyncagents.plugins.api import PluginContext, PluginHooks
from tests.support.mcp.server import DOT
from tests.support.mcp.session import (
    Ledger,
    free_port,
    hostile_server,
    local_server,
    open_mcp_session,
    open_remote_server,
    until_dead,
    until_held,
)
from tests.support.runtime import Stage
from tests.support.wait import PATIENCE


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


def once(name: str, **arguments: Any) -> Script:
    """The model calls one tool, and is done."""
    return {"go": [[call(name, **arguments)], [say("Done.")]]}


def told(at: Stage) -> list[str]:
    return [each.output for each in at.request_messages() if isinstance(each, ToolTurn)]


@pytest.mark.spec("X-04", "A-06")
async def test_a_session_uses_the_tools_of_a_server(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, once("kit_add", a=1, b=2), {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
    first, _ = at.model.requests
    names = [tool.name for tool in first.tools]
    assert names[:2] == ["read", "list"]
    served = [name for name in names if name.startswith("kit_")]
    assert names[-len(served) :] == served == sorted(served)
    (spec,) = [tool for tool in first.tools if tool.name == "kit_add"]
    assert spec.description == "Adds two numbers."
    assert spec.parameters["properties"]["a"]["type"] == "integer"
    assert told(at) == ["3"]


async def test_a_rule_for_all_tools_of_a_server_hides_and_refuses_them(
    tmp_path: Path, ledger: Ledger
) -> None:
    script = once("kit_note", text="x")
    async with open_mcp_session(
        tmp_path, script, {"kit": local_server(ledger)}, permission={"kit_*": "deny"}
    ) as at:
        await at.prompt("go")
    assert not [tool.name for tool in at.model.requests[0].tools if tool.name.startswith("kit_")]
    (refused,) = told(at)
    assert "Not allowed here: kit_note" in refused
    assert ledger.lines("note") == []


async def test_a_tool_asks_under_its_name_and_always_covers_later_calls(
    tmp_path: Path, ledger: Ledger
) -> None:
    script = {"go": [[call("kit_note", text="a")], [call("kit_note", text="b")], [say("Done.")]]}
    rules: dict[str, Any] = {"kit_note": "ask"}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}, permission=rules) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert asked.request.permission == "kit_note"
        assert asked.request.patterns == ("*",)
        assert ledger.lines("note") == []
        await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        assert told(at) == ["noted a", "noted b"]


async def test_a_server_is_started_once_and_only_when_a_session_takes_a_step(
    tmp_path: Path, ledger: Ledger
) -> None:
    """And then once, for all sessions of all directories that want the same."""
    folder = str(tmp_path)
    async with open_mcp_session(
        tmp_path, {"go": [[say("Hello.")]]}, {"kit": local_server(ledger, cwd=folder)}
    ) as at:
        workplace = await at.runtime.workplace(tmp_path / "project")
        assert "kit_add" not in workplace.tools
        assert ledger.lines("start") == []
        await at.prompt("go")
        (tmp_path / "other").mkdir()
        other = await at.runtime.create_session(directory=tmp_path / "other")
        await at.runtime.prompt(other.id, "go")
        assert "kit_add" in (await at.runtime.workplace(tmp_path / "project")).tools
    assert len(ledger.lines("start")) == 1
    assert all("kit_add" in [tool.name for tool in each.tools] for each in at.model.requests)


async def test_a_server_killed_between_calls_is_started_again(tmp_path: Path, ledger: Ledger) -> None:
    script = {**once("kit_note", text="one"), "more": [[call("kit_note", text="two")], [say("Done.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
        await ledger.kill()
        await at.prompt("more")
    assert told(at) == ["noted one", "noted two"]
    assert len(ledger.lines("start")) == 2


async def test_a_call_that_was_under_way_when_its_server_died_is_in_doubt(
    tmp_path: Path, ledger: Ledger
) -> None:
    script = {"go": [[call("kit_hold", text="x")], [call("kit_add", a=2, b=2)], [say("Done.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.runtime.send(at.session_id, "go")
        await until_held(at)
        await ledger.kill()
        await at.runtime.wait(at.session_id)
        lost, _ = await at.states()
    doubt, answer = told(at)
    assert doubt.startswith(
        'MCP server "kit" was lost while this call ran, so whether it took effect is unknown'
    )
    assert "exit code 137" in doubt
    assert isinstance(lost, ToolFailed)
    assert lost.metadata == {"inDoubt": True}
    assert answer == "4"
    assert len(ledger.lines("hold")) == 1
    assert len(ledger.lines("start")) == 2


async def test_a_call_that_may_run_again_does_when_its_server_died(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(
        tmp_path, once("kit_hold_once", text="x"), {"kit": local_server(ledger)}
    ) as at:
        await at.runtime.send(at.session_id, "go")
        await until_held(at)
        await ledger.kill()
        await at.runtime.wait(at.session_id)
    assert told(at) == ["at last"]
    assert len(ledger.lines("hold_once")) == 2


async def test_a_call_that_may_run_again_does_when_our_process_died(tmp_path: Path, ledger: Ledger) -> None:
    script = once("kit_hold_once", text="x")
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.runtime.send(at.session_id, "go")
        await until_held(at)
        session_id = at.session_id
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.runtime.wait(session_id)
        entries = await at.runtime.messages(session_id)
    (state,) = [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert isinstance(state, ToolCompleted)
    assert state.output == "at last"


async def test_a_server_that_dies_by_every_call_is_not_started_for_ever(
    tmp_path: Path, ledger: Ledger
) -> None:
    calls = [[call("kit_die", text=text)] for text in "abcd"]
    async with open_mcp_session(
        tmp_path, {"go": [*calls, [say("Done.")]]}, {"kit": local_server(ledger)}
    ) as at:
        await at.prompt("go")
    results = told(at)
    assert "whether it took effect is unknown" in results[0]
    assert 'MCP server "kit" cannot be used: It ended with exit code 7.' in results[-1]
    assert "I am dying" in results[-1]
    assert len(ledger.lines("die")) < 4


async def test_the_progress_of_a_call_is_shown_while_it_runs(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, once("kit_steps"), {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
        await at.listener.until(PartUpdated, lambda event: "1 of 2: half" in _running(event))
    assert told(at) == ["all"]


def _running(event: PartUpdated) -> str:
    match event.part:
        case ToolPart(state=ToolRunning(metadata=dict() as metadata)):
            return str(metadata.get("output", ""))
        case _:
            return ""


async def test_a_tool_added_by_a_server_is_offered_at_a_later_step(tmp_path: Path, ledger: Ledger) -> None:
    script = {"go": [[call("kit_grow")], [call("kit_add", a=1, b=1)], [call("kit_late")], [say("Done.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
    before, *_, after = at.model.requests
    assert "kit_late" not in [tool.name for tool in before.tools]
    assert "kit_late" in [tool.name for tool in after.tools]
    assert told(at) == ["grown", "2", "late"]


async def test_an_abort_cancels_the_call_on_the_server(tmp_path: Path, ledger: Ledger) -> None:
    script = {**once("kit_heed"), "more": [[call("kit_add", a=1, b=1)], [say("Done.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.runtime.send(at.session_id, "go")
        await until_held(at)
        await at.abort()
        await at.prompt("more")
        assert len(ledger.lines("heeded")) == 1
        assert len(ledger.lines("start")) == 1


async def test_a_call_over_its_time_limit_fails(tmp_path: Path) -> None:
    async with open_mcp_session(
        tmp_path, once("bad_go"), {"bad": hostile_server("silent", timeout_seconds=2.5)}
    ) as at:
        await at.prompt("go")
    assert told(at) == ["Tool execution timed out after 2.5 s."]


async def test_images_are_described_and_long_output_is_shortened_for_the_model(
    tmp_path: Path, ledger: Ledger
) -> None:
    calls = [[call("kit_fail")], [call("kit_image")], [call("kit_long", size=100_000)]]
    async with open_mcp_session(
        tmp_path, {"go": [*calls, [say("Done.")]]}, {"kit": local_server(ledger)}
    ) as at:
        await at.prompt("go")
        failed, *_ = await at.states()
    assert isinstance(failed, ToolFailed)
    _, image, long = told(at)
    assert image == "[image image/png, 70 bytes]"
    assert len(long) < 60_000
    assert "characters (0 lines) left out" in long


@pytest.mark.spec("X-04", "P-03")
async def test_the_model_sees_an_image_that_a_server_returns(tmp_path: Path, ledger: Ledger) -> None:
    script = {"go": [[call("kit_image"), call("kit_add", a=1, b=2)], [say("A dot.")]], "and": [[say("Yes.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": local_server(ledger)}) as at:
        await at.prompt("go")
        shown, _ = await at.states()
        await at.prompt("and")
    assert isinstance(shown, ToolCompleted)
    assert shown.attachments is not None
    (file,) = shown.attachments
    assert file.mime == "image/png"
    assert file.url == f"data:image/png;base64,{DOT}"
    assert file.session_id == at.session_id
    for request in at.model.requests[1:]:
        image, added = [each for each in request.messages if isinstance(each, ToolTurn)]
        assert image.files == (Attachment("image/png", file.url),)
        assert added.files == ()


async def test_when_a_runtime_ends_nothing_of_its_servers_is_left(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(
        tmp_path, once("kit_spawn"), {"kit": local_server(ledger, forked=False)}
    ) as at:
        await at.prompt("go")
        (child,) = map(int, told(at))
        os.kill(child, 0)
    await until_dead(child)
    for pid in (child, ledger.pid()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_server_gets_its_configured_environment_and_no_api_keys(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours-and-nobody-elses")
    kit = local_server(ledger, environment={"TOKEN_OF_KIT": "given-to-the-kit"})
    async with open_mcp_session(tmp_path, once("kit_variables"), {"kit": kit}) as at:
        await at.prompt("go")
    (variables,) = told(at)
    assert "TOKEN_OF_KIT=given-to-the-kit" in variables
    assert "PATH=" in variables
    assert "sk-ours" not in variables


async def test_error_output_of_a_server_is_shortened_and_shows_no_secrets(
    tmp_path: Path, ledger: Ledger, capfd: pytest.CaptureFixture[str]
) -> None:
    deaths = [[call("kit_die", text=text)] for text in "abc"]
    script = {"go": [[call("kit_shout", lines=50_000)], *deaths, [say("Done.")]]}
    kit = local_server(ledger, environment={"SHOUTED": "secret-of-the-kit"})
    async with open_mcp_session(tmp_path, script, {"kit": kit}) as at:
        await at.prompt("go")
    *_, last = told(at)
    assert "I am dying" in last
    assert len(last) < 4_000
    assert "secret-of-the-kit" not in "".join(told(at))
    assert "line 1" not in capfd.readouterr().err


UNUSABLE = {
    "exits": (hostile_server("exits"), "It ended with exit code 1."),
    "hangs": (hostile_server("hangs", timeout_seconds=1.5), "It did not answer within 1.5 s."),
    "endless": (hostile_server("endless"), "It sent a line of more than 16777216 bytes."),
    "missing": (McpConfig(type="local", command=("/nowhere/at-all",)), "could not be started: No such file"),
    "no-folder": (McpConfig(type="local", command=("true",), cwd="nowhere"), "There is no directory"),
    "nul": (McpConfig(type="local", command=("tr\0ue",)), "a character that no program can be given"),
    "unreachable": (McpConfig(type="remote", url="http://127.0.0.1:1/mcp"), "Nobody answers at its address"),
}


async def test_unusable_servers_break_no_turn_and_their_failure_is_logged(
    tmp_path: Path, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {name: config for name, (config, _) in UNUSABLE.items()}
    async with open_mcp_session(
        tmp_path, once("kit_add", a=1, b=2), {**servers, "kit": local_server(ledger)}
    ) as at:
        await at.prompt("go")
    assert told(at) == ["3"]
    for name, (_, why) in UNUSABLE.items():
        start = f"action=connect mcp_server={name}: "
        assert [text for text in caplog.messages if text.startswith(start) and why in text]


async def test_a_request_to_an_unusable_server_fails_with_its_error_output(tmp_path: Path) -> None:
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"bad": hostile_server("exits")}) as at:
        workplace = await at.runtime.workplace(tmp_path / "project")
        assert workplace.mcp_resources is not None
        assert await workplace.mcp_resources.list_resources() == ()
        with pytest.raises(Refused, match='MCP server "bad" cannot be used: It ended with exit code 1') as no:
            await workplace.mcp_resources.read_resource("bad", "x")
    assert "no licence found" in str(no.value)


@pytest.mark.parametrize("mode", ["noisy", "floods"])
async def test_output_of_a_server_that_is_no_message_is_ignored(tmp_path: Path, mode: str) -> None:
    async with open_mcp_session(tmp_path, once("bad_go"), {"bad": hostile_server(mode)}) as at:
        await at.prompt("go")
    assert told(at) == ["fine ?"]


@pytest.mark.parametrize("mode", ["wrong", "broken"])
async def test_an_invalid_answer_of_a_server_is_an_error_of_its_call(tmp_path: Path, mode: str) -> None:
    async with open_mcp_session(tmp_path, once("bad_go"), {"bad": hostile_server(mode)}) as at:
        await at.prompt("go")
    (error,) = told(at)
    assert error.startswith("The answer is not what the protocol asks for")


async def test_an_endless_list_of_tools_is_cut(tmp_path: Path) -> None:
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"bad": hostile_server("pages")}) as at:
        await at.prompt("go")
    names = [tool.name for tool in at.model.requests[0].tools if tool.name.startswith("bad_")]
    assert len(names) == 50
    assert names[:2] == ["bad_tool_0", "bad_tool_1"]


async def test_tool_names_are_changed_to_a_form_that_every_provider_accepts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"b@d": hostile_server("names")}) as at:
        await at.prompt("go")
    names = [tool.name for tool in at.model.requests[0].tools if tool.name.startswith("b_d_")]
    assert len(names) == len(set(names)) == 5
    assert names[0] == "b_d_a_b"
    assert all(len(name) <= 64 and name.isascii() for name in names)
    assert "action=skip_tool mcp_server=b@d tool=a/b: there is another tool named b_d_a_b" in caplog.text


async def test_descriptions_and_schemas_of_tools_have_a_size_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"bad": hostile_server("huge")}) as at:
        await at.prompt("go")
    (served,) = [tool for tool in at.model.requests[0].tools if tool.name.startswith("bad_")]
    assert served.name == "bad_go"
    assert len(served.description) == 10_000
    assert "action=skip_tool mcp_server=bad tool=huge: its schema has" in caplog.text


@pytest.mark.spec("X-04")
async def test_a_remote_server_is_used_lost_and_found_again(tmp_path: Path, ledger: Ledger) -> None:
    port = free_port()
    kit = McpConfig(type="remote", url=f"http://127.0.0.1:{port}/mcp")
    script = {
        **once("kit_note", text="one"),
        "hold": [[call("kit_hold", text="x")], [call("kit_note", text="two")], [say("Done.")]],
        "more": [[call("kit_note", text="three")], [say("Done.")]],
    }
    async with open_mcp_session(tmp_path, script, {"kit": kit}) as at:
        async with open_remote_server(ledger, port):
            await at.prompt("go")
            await at.runtime.send(at.session_id, "hold")
            await until_held(at)
            await ledger.kill()
            await at.runtime.wait(at.session_id)
        async with open_remote_server(ledger, port), asyncio.timeout(PATIENCE):
            while told(at)[-1] != "noted three":  # it is tried again a second after the last try
                await at.prompt("more")
    one, doubt, gone, *_ = told(at)
    assert one == "noted one"
    assert "whether it took effect is unknown" in doubt
    assert "Nobody answers at its address" in gone
    assert len(ledger.lines("hold")) == 1


async def test_a_client_reconnects_to_a_remote_server_that_was_restarted(
    tmp_path: Path, ledger: Ledger
) -> None:
    port = free_port()
    kit = McpConfig(type="remote", url=f"http://127.0.0.1:{port}/mcp")
    script = {**once("kit_note", text="one"), "more": [[call("kit_note", text="two")], [say("Done.")]]}
    async with open_mcp_session(tmp_path, script, {"kit": kit}) as at:
        async with open_remote_server(ledger, port):
            await at.prompt("go")
        async with open_remote_server(ledger, port):
            await at.prompt("more")
    assert told(at) == ["noted one", "noted two"]


async def test_hooks_apply_to_prompts_and_tools_of_a_server(tmp_path: Path, ledger: Ledger) -> None:
    seen: list[tuple[str, str]] = []

    async def commanded(input: dict[str, Any], output: dict[str, Any]) -> None:
        seen.append((input["command"], input["arguments"]))
        output["parts"][0]["text"] = "go"

    async def before(input: dict[str, Any], output: dict[str, Any]) -> None:
        seen.append((input["tool"], output["args"]["text"]))
        output["args"]["text"] = "changed"

    async def asked(input: dict[str, Any], output: dict[str, Any]) -> None:
        seen.append((input["permission"], input["args"]["text"]))
        output["status"] = "allow"

    async def plugin(context: PluginContext) -> PluginHooks:
        return {
            "command.execute.before": commanded,
            "tool.execute.before": before,
            "permission.ask": asked,
        }

    rules: dict[str, Any] = {"kit_note": "ask"}
    servers = {"kit": local_server(ledger)}
    script = once("kit_note", text="x")
    async with open_mcp_session(tmp_path, script, servers, plugins=[plugin], permission=rules) as at:
        await at.prompt("/kit:greet Ada")
    assert seen == [("kit:greet", "Ada"), ("kit_note", "x"), ("kit_note", "changed")]
    assert told(at) == ["noted changed"]


async def test_a_prompt_of_one_server_does_not_wait_for_the_others(tmp_path: Path, ledger: Ledger) -> None:
    other = Ledger(tmp_path / "other")
    async with open_mcp_session(
        tmp_path, {}, {"kit": local_server(ledger), "other": local_server(other)}
    ) as at:
        await at.runtime.send(at.session_id, "/kit:greet Ada", wakes=False)
        await at.runtime.send(at.session_id, "/nobody:greet Ada", wakes=False)
        assert [entry.text for entry in await at.messages()] == ["Say hello to Ada.", "/nobody:greet Ada"]
    assert len(ledger.lines("start")) == 1
    assert len(other.lines("start")) == 0


async def test_resources_and_prompts_can_be_listed_and_read(tmp_path: Path, ledger: Ledger) -> None:
    async with open_mcp_session(tmp_path, {"go": [[say("Hi.")]]}, {"kit": local_server(ledger)}) as at:
        workplace = await at.runtime.workplace(tmp_path / "project")
        served = workplace.mcp_resources
        assert served is not None
        assert ledger.lines("start") == []
        assert [each.uri for each in await served.list_resources()] == ["note://blob", "note://hello"]
        (hello,) = await served.read_resource("kit", "note://hello")
        assert hello.text == "Hello!"
        assert hello.mime == "text/markdown"
        (blob,) = await served.read_resource("kit", "note://blob")
        assert blob.data == b"\x00\x01"
        assert blob.mime == "application/x-thing"
        (prompt,) = await served.list_prompts()
        assert prompt.command == "kit:greet"
        assert prompt.arguments[0].required is True
        (text,) = await served.get_prompt("kit", "greet", {"name": "Ada"})
        assert text.text == "Say hello to Ada."
        with pytest.raises(Refused, match="There is no MCP server named"):
            await served.read_resource("nobody", "x")
        await at.prompt("/kit:greet Ada Lovelace")
        assert at.request_messages()[-1] == UserTurn("Say hello to Ada Lovelace.")
        with pytest.raises(InvalidInput, match="/kit:greet needs name"):
            await at.prompt("/kit:greet")
        source = ResourceSource(
            client_name="kit", uri="note://hello", text=TextSpan(value="@hello", start=0, end=6)
        )
        part = FileInput(mime="text/plain", url="note://hello", filename="hello", source=source)
        await at.runtime.prompt(at.session_id, "Read it.", parts=[part])
        assert at.request_messages()[-1] == UserTurn('Read it.\n<file name="hello">\nHello!\n</file>')
        with pytest.raises(Refused, match="note://missing"):
            await served.read_resource("kit", "note://missing")
