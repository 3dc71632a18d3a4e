"""Slash commands: a template is filled, its shell and files are asked, and the words become the prompt."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import CommandConfig, Config
from asyncagents.domain.conversation.message import ModelRef, UserMessage
from asyncagents.domain.conversation.part import AgentPart, CompactionPart, FilePart, SubtaskPart, TextPart
from asyncagents.domain.text import without_reminders
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptedModel
from tests.support.git import create_repository
from tests.support.runtime import Stage, answer_of, open_stage
from tests.support.wait import wait_until


@asynccontextmanager
async def project(
    tmp_path: Path,
    commands: Mapping[str, CommandConfig] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    tools: tuple[AnyTool, ...] = (),
    **config: Any,
) -> AsyncIterator[Stage]:
    root = tmp_path / "project"
    create_repository(root, files or {})
    coding = Config(data_dir=tmp_path / "data", command=dict(commands or {}), **config)
    model = ScriptedModel({})
    async with open_stage(tmp_path / "data", model, coding=coding, directory=root, tools=tools) as at:
        yield at


def command(template: str, **more: Any) -> CommandConfig:
    return CommandConfig(template=template, **more)


def asked(at: Stage) -> str:
    """What the last request told the model at its end."""
    (*_, last) = [told for told in at.request_messages() if isinstance(told, UserTurn)]
    return without_reminders(last.text)


async def parts(at: Stage) -> list[Any]:
    return list((await at.messages())[0].parts)


@pytest.mark.spec("S-08")
async def test_a_command_is_filled_with_its_arguments_instead_of_being_sent(tmp_path: Path) -> None:
    commands = {"fix": command("Fix issue $1 of $2.\nAll: $ARGUMENTS")}
    async with project(tmp_path, commands) as at:
        await at.prompt('/fix 12 "the shop"')
        (part,) = await parts(at)
    assert part.text == 'Fix issue 12 of the shop.\nAll: 12 "the shop"'
    assert asked(at) == part.text


@pytest.mark.spec("S-08")
@pytest.mark.parametrize("text", ["/nothing here", "/ fix", "see /fix", "//fix", "/etc/hosts is odd"])
async def test_text_that_names_no_command_is_sent_as_a_prompt(tmp_path: Path, text: str) -> None:
    async with project(tmp_path, {"fix": command("Fixed.")}) as at:
        await at.prompt(text)
    assert asked(at) == text


@pytest.mark.spec("S-08")
async def test_a_command_chooses_the_agent_model_and_variant(tmp_path: Path) -> None:
    model = ModelRef(provider_id="far", model_id="away")
    commands = {"think": command("Think.", agent="plan", model=model, variant="high")}
    async with project(tmp_path, commands) as at:
        await at.runtime.prompt(at.session_id, "/think", agent="build", model="near/by")
        (message, *_) = await at.messages()
    assert message.info.agent == "plan"
    assert isinstance(message.info, UserMessage)
    assert message.info.model == ModelRef(provider_id="far", model_id="away", variant="high")


@pytest.mark.spec("S-08")
async def test_a_variant_alone_goes_with_the_model_that_the_session_uses(tmp_path: Path) -> None:
    async with project(tmp_path, {"hard": command("Think hard.", variant="high")}) as at:
        await at.runtime.prompt(at.session_id, "Hello", model="near/by")
        await at.prompt("/hard")
        message = (await at.messages())[2].info
    assert isinstance(message, UserMessage)
    assert message.model == ModelRef(provider_id="near", model_id="by", variant="high")


@pytest.mark.spec("S-08")
async def test_shell_output_replaces_its_placeholder_and_a_failure_is_noted(tmp_path: Path) -> None:
    template = "Says !`echo one; echo two >&2`. Fails !`echo why; exit 3` and !`false`. Typed: !`echo $1`."
    async with project(tmp_path, {"look": command(template)}) as at:
        await at.prompt("/look '$(touch hacked); `touch hacked`'")
    text = asked(at)
    assert text.startswith(
        "Says one\ntwo. Fails why\n[The command `echo why; exit 3` failed with exit code 3.]"
    )
    assert "[The command `false` failed with exit code 1.]" in text
    assert "Typed: $(touch hacked); `touch hacked`." in text
    assert not (tmp_path / "project" / "hacked").exists()


@pytest.mark.spec("S-08")
async def test_the_shell_runs_in_the_sessions_directory_and_its_output_is_limited(tmp_path: Path) -> None:
    commands = {"where": command("!`pwd` !`yes | head -c 1000000`")}
    async with project(tmp_path, commands) as at:
        await at.prompt("/where")
    text = asked(at)
    assert text.startswith(f"{tmp_path / 'project'} y\ny\n")
    assert len(text) < 40_000


@pytest.mark.spec("S-08")
async def test_arguments_too_long_for_a_program_reach_the_shell_all_the_same(tmp_path: Path) -> None:
    async with project(tmp_path, {"count": command('!`printf %s "$ARGUMENTS" | wc -c`')}) as at:
        await at.prompt(f"/count {'x' * 300_000}")
        left = list((tmp_path / "data" / "tool-output").glob("script-*"))
    assert asked(at) == "300000"
    assert left == []


@pytest.mark.spec("S-08")
async def test_files_and_agents_mentioned_in_a_template_become_parts(tmp_path: Path) -> None:
    commands = {"read": command("Read @docs/a.md and @$1, @nobody and @explore; mail a@b.c")}
    files = {"docs/a.md": "Alpha", "b.txt": "Beta"}
    async with project(tmp_path, commands, files=files) as at:
        await at.prompt("/read b.txt")
        found = await parts(at)
    assert found[0].text == "Read @docs/a.md and @b.txt, @nobody and @explore; mail a@b.c"
    assert [part.filename for part in found if isinstance(part, FilePart)] == ["docs/a.md", "b.txt"]
    assert [part.name for part in found if isinstance(part, AgentPart)] == ["explore"]
    assert '<file name="docs/a.md">\nAlpha\n</file>' in asked(at)
    assert '<file name="b.txt">\nBeta\n</file>' in asked(at)


@pytest.mark.spec("S-08")
@pytest.mark.parametrize("path", [".env", "../outside.txt", "/etc/hostname", "link"])
async def test_a_path_argument_that_the_rules_do_not_allow_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    async with project(tmp_path, {"read": command("Read @$1")}, files={".env": "KEY=1"}) as at:
        (tmp_path / "project" / "link").symlink_to(tmp_path / "outside.txt")
        with pytest.raises(InvalidInput, match="cannot be attached"):
            await at.prompt(f"/read {path}")
        assert await at.messages() == ()


@pytest.mark.spec("S-08")
async def test_the_same_key_again_runs_no_shell_again(tmp_path: Path) -> None:
    commands = {"count": command("!`echo x >> ran; wc -l < ran`")}
    async with project(tmp_path, commands) as at:
        first = await at.prompt("/count", key="k")
        again = await at.prompt("/count", key="k")
        root = tmp_path / "project"
        begun = [await at.runtime.begin("/count", key="b", directory=root) for _ in range(2)]
        await at.runtime.wait(begun[0][0].id)
    assert first.info.id == again.info.id
    assert begun[0][1] == begun[1][1]
    assert (root / "ran").read_text() == "x\nx\n"


@pytest.mark.spec("S-08")
async def test_the_same_key_at_the_same_time_runs_the_shell_once(tmp_path: Path) -> None:
    shell = "echo x >> ran; until test -e go; do sleep 0.01; done"
    async with (
        project(tmp_path, {"count": command(f"!`{shell}`Counted")}) as at,
        asyncio.TaskGroup() as group,
    ):
        prompts = [group.create_task(at.prompt("/count", key="k")) for _ in range(2)]
        sends = [group.create_task(at.runtime.send(at.session_id, "/count", key="s")) for _ in range(2)]
        locks = at.runtime._intake._key_locks
        await wait_until(lambda: sorted(lock.users for lock in locks.values()) == [2, 2])
        (tmp_path / "project" / "go").touch()
        first, again = [await each for each in prompts]
        sent = [await each for each in sends]
        await at.runtime.wait(at.session_id)
        assert locks == {}
    assert first == again
    assert sent[0] == sent[1]
    assert (tmp_path / "project" / "ran").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    "to",
    [{"files": ["missing"]}, {"format": {"type": "x"}}, {"model": "x"}, {"agent": "x"}, {"parts": [1]}],
)
async def test_an_invalid_prompt_is_refused_before_its_shell_runs(tmp_path: Path, to: Any) -> None:
    async with project(tmp_path, {"go": command("!`touch ran`")}) as at:
        with pytest.raises(InvalidInput):
            await at.runtime.prompt(at.session_id, "/go", **to)
    assert not (tmp_path / "project" / "ran").exists()


async def test_a_command_that_does_not_wake_is_read_with_the_next_prompt(tmp_path: Path) -> None:
    async with project(tmp_path, {"note": command("Noted: $1")}) as at:
        await at.runtime.send(at.session_id, "/note this", wakes=False)
        assert at.model.requests == []
        await at.prompt("Hello")
    assert [told.text for told in at.request_messages() if isinstance(told, UserTurn)] == [
        "Noted: this",
        "Hello",
    ]


@pytest.mark.spec("S-08")
async def test_commands_of_a_project_run_only_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {".asyncagents/commands/go.md": "---\ndescription: Goes\n---\nGo to $1 !`touch ran`"}
    async with project(tmp_path, files=files) as at:
        with pytest.raises(InvalidInput, match=r"'/go' is named in .*go\.md, which is not trusted"):
            await at.prompt("/go home")
        assert not (tmp_path / "project" / "ran").exists()
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    async with project(tmp_path, files=files) as at:
        await at.prompt("/go home")
        listed = await at.runtime.commands(tmp_path / "project")
    assert asked(at) == "Go to home"
    assert (tmp_path / "project" / "ran").exists()
    assert [(each.name, each.description, each.hints) for each in listed[3:]] == [("go", "Goes", ("$1",))]


@pytest.mark.spec("S-08")
async def test_a_command_with_an_invalid_file_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCAGENTS_TRUST", "1")
    async with project(tmp_path, files={".claude/commands/go.md": "---\nmodel: 3\n---\n"}) as at:
        with pytest.raises(InvalidInput, match=r"/go cannot be used: .*has no text"):
            await at.prompt("/go")


@pytest.mark.spec("S-08")
@pytest.mark.parametrize("name", ["compact", "summarize"])
async def test_compact_is_built_in_and_cannot_be_replaced(tmp_path: Path, name: str) -> None:
    async with project(tmp_path, {name: command("Taken.")}) as at:
        await at.prompt("Hello")
        answer = await at.prompt(f"/{name} the names of files")
        assert answer_of(answer).summary
        assert "the names of files" in str(at.request_messages())
        message_id = await at.runtime.send(at.session_id, f"/{name}")
        await at.runtime.wait(at.session_id)
        (entry,) = [entry for entry in await at.messages() if entry.info.id == message_id]
    part = entry.parts[0]
    assert isinstance(part, CompactionPart)
    assert not part.auto


@pytest.mark.spec("S-08")
async def test_the_runtime_runs_a_command_by_its_name(tmp_path: Path) -> None:
    async with project(tmp_path, {"fix": command("Fix $1.")}) as at:
        answer = await at.runtime.command(at.session_id, "fix", "it")
        assert asked(at) == "Fix it."
        assert isinstance(answer.parts[1], TextPart)
        with pytest.raises(InvalidInput, match="there is no command 'fox'"):
            await at.runtime.command(at.session_id, "fox")


@pytest.mark.spec("S-08", "S-05")
async def test_a_subtask_and_a_command_for_a_subagent_become_a_task(tmp_path: Path) -> None:
    commands = {
        "find": command("Find $1 with @a.txt", agent="explore", description="Finds"),
        "do": command("Do it", subtask=True),
        "here": command("Here", agent="explore", subtask=False),
    }
    async with project(tmp_path, commands, files={"a.txt": "Alpha"}) as at:
        for text in ("/find it", "/do", "/here"):
            await at.runtime.send(at.session_id, text, wakes=True)
            await at.runtime.wait(at.session_id)
        entries = [entry for entry in await at.messages() if isinstance(entry.info, UserMessage)]
    tasks = [part for entry in entries for part in entry.parts if isinstance(part, SubtaskPart)]
    assert [(task.agent, task.command, task.description) for task in tasks] == [
        ("explore", "find", "Finds"),
        ("general", "do", "/do"),
    ]
    assert tasks[0].prompt.startswith("Find it with @a.txt\n\n<file")
    assert "Alpha" in tasks[0].prompt
    assert entries[0].info.agent == "build"
    assert entries[-1].info.agent == "explore"


async def test_a_command_for_a_missing_agent_is_refused_with_the_agents_name(tmp_path: Path) -> None:
    async with project(tmp_path, {"go": command("Go", agent="nobody")}) as at:
        with pytest.raises(InvalidInput, match="/go needs the agent 'nobody'"):
            await at.prompt("/go")


async def test_without_coding_there_are_no_commands(tmp_path: Path) -> None:
    async with open_stage(tmp_path, ScriptedModel({})) as at:
        await at.prompt("/compact")
        assert asked(at) == "/compact"
        with pytest.raises(InvalidInput, match="open the runtime with `coding`"):
            await at.runtime.command(at.session_id, "compact")
