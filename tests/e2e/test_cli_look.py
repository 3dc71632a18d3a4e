"""Commands that only look: they say what is there, and make nothing that is not."""

import os
import stat
from pathlib import Path

import pytest

from asyncagents.cli.inspect.sessions import status_word
from asyncagents.config.clock import SystemClock
from asyncagents.domain.conversation.status import Retry
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import open_desk, wait_for_exit


@pytest.mark.spec("X-06")
async def test_read_only_commands_create_no_data(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        for words in (("sessions",), ("sessions", "--json"), ("models",), ("doctor",), ("config",)):
            ran = await desk.run(*words)
            assert ran.code == 0, ran.err
            assert ("Traceback" in ran.err) is False, ran.err
        assert not desk.data.exists()
        assert provider.asked == 0


async def test_a_transcript_shows_the_messages_in_order_and_the_error(tmp_path: Path) -> None:
    script = {"Fail": [Reply(status=400, error="Nope.")]}
    answer = Reply(text="Hi.\nThere.", reasoning="hm")
    async with open_desk(tmp_path, script, otherwise=answer) as (desk, _):
        (desk.project / "notes.md").write_text("notes")
        await desk.run("run", "Hello", "-f", "notes.md")
        await desk.run("run", "-c", "Fail")
        shown = await desk.run("show")
        session_id = shown.out.splitlines()[1].split()[0]
        by_id = await desk.run("show", session_id[:20], "-C", "/")

    assert shown.out == by_id.out
    assert shown.out.splitlines()[0] == "Hello"
    lines = [line.strip() for line in shown.out.splitlines()]
    wanted = ["Hello", "[file notes.md, text/plain]", "| hm", "Hi.", "There.", "Fail"]
    assert [line for line in lines[2:] if line in wanted] == wanted
    assert lines[-1] == "error: local refused the request (HTTP 400): Nope."


@pytest.mark.spec("X-06")
async def test_doctor_finds_problems_and_asks_providers_only_with_online(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        await desk.run("run", "Hello")
        left = (await desk.run("run", "Later", "--detach")).code
        os.chmod(desk.data, 0o755)
        offline = await desk.run("doctor", "--json", env={"DESK_KEY": "wrong"})
        online = await desk.run("doctor", "--json", "--online")
        refused = await desk.run("doctor", "--online", env={"DESK_KEY": "sk-not-this-one"})
        mode = stat.S_IMODE(desk.data.stat().st_mode)

    checks = {check["name"]: check for check in offline.json["checks"]}
    assert left == 0
    assert offline.code == 0
    assert offline.json["ok"] is True
    assert mode == 0o755
    assert checks["data directory"]["level"] == "warn"
    assert checks["sessions"]["level"] == "warn"
    assert checks["sessions"]["text"] == "1 have work that no process does"
    assert checks["database"]["level"] == "ok"
    assert "local online" not in checks
    assert online.json["checks"][-1]["text"] == "it answers, and lists 1 model"
    assert refused.code == 1
    assert "fail  local online" in refused.out
    assert "sk-not-this-one" not in refused.out + refused.err


async def test_a_closed_output_pipe_prints_no_error(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        reads, writes = os.pipe()
        os.close(reads)
        process = await desk.start("models", "--all", stdout=writes)
        os.close(writes)
        ran = await wait_for_exit(process)

    assert ran.code == 141
    assert ran.err == ""


async def test_models_without_a_key_names_the_key_to_set(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        (desk.project / "asyncagents.json").write_text(
            '{"disabled_providers": ["ollama", "lmstudio", "vllm", "llama.cpp"]}'
        )
        ran = await desk.run("models")
        some = await desk.run("models", env={"ANTHROPIC_API_KEY": "k"})
    assert ran.code == 0
    assert ran.out.startswith("there is no model to ask: set a key such as ANTHROPIC_API_KEY")
    assert " of anthropic: there is no API key" in ran.err
    assert " more of " not in ran.err
    assert "there is no model to ask" not in some.out


async def test_an_agent_for_claude_code_has_the_newest_model_of_its_family(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        file = desk.project / ".claude" / "agents" / "judge.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\ndescription: Judges\nmodel: opus\n---\nJudge.")
        known = await desk.run("agents", "judge", "--json", env={"ANTHROPIC_API_KEY": "k"})
        unknown = await desk.run("agents", "judge", "--json")
    assert known.json["model"].startswith("anthropic/claude-opus-")
    assert "judge.md" not in known.err
    assert "model" not in unknown.json or unknown.json["model"] is None
    assert "the model 'opus' names no provider" in unknown.err


async def test_a_missing_database_extra_is_an_error_with_its_install_command(tmp_path: Path) -> None:
    (tmp_path / "hides").mkdir()
    (tmp_path / "hides" / "asyncpg.py").write_text("raise ModuleNotFoundError('No module named asyncpg')\n")
    env = {"PYTHONPATH": str(tmp_path / "hides"), "ASYNCAGENTS_STORE": "postgresql://a@127.0.0.1:1/a"}
    async with open_desk(tmp_path) as (desk, _):
        ran = await wait_for_exit(await desk.start("run", "Hello", env=env))
    assert ran.code == 2
    assert "run `pip install 'asyncagents[postgres]'`" in ran.err


async def test_a_retry_that_is_overdue_is_left_by_its_process(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), desk.look() as runtime:
        session = await runtime.create_session(directory=desk.project)
        now = SystemClock().now()
        words = [
            await status_word(runtime, session.id, Retry(attempt=1, message="overloaded", next=next_at))
            for next_at in (now + 60_000, now - 60_000)
        ]
        runtime.tasks.is_served_elsewhere = lambda pool: True
        served = await status_word(runtime, session.id, Retry(attempt=1, message="overloaded", next=0))
    assert words == ["retry", "left"]
    assert served == "retry"
