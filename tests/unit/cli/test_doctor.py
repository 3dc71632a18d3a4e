"""The doctor looks at broken things and says what to do; it breaks and changes nothing itself."""

import asyncio
import fcntl
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.doctor.system import check_system, has_openat2
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.testing.acp_agent import AgentScript
from tests.support.environment import ConfigDesk

Invoke = Callable[..., Result]
Checks = dict[str, dict[str, Any]]


@pytest.fixture
def data(desk: ConfigDesk, tmp_path: Path) -> Path:
    """A data directory with one session, at rest."""
    folder = tmp_path / "data"

    async def make() -> None:
        async with open_runtime(folder, model=ScriptedModel({}), serve=False) as runtime:
            await runtime.create_session()

    asyncio.run(make())
    return folder


@contextmanager
def database(data: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(data / "asyncagents.db", isolation_level=None)) as connection:
        yield connection


def examine(invoke: Invoke, *words: str) -> tuple[int, Checks]:
    ended = invoke("doctor", "--json", *words)
    found = msgspec.json.decode(ended.stdout)
    assert found["ok"] == (ended.exit_code == 0)
    return ended.exit_code, {check["name"]: check for check in found["checks"]}


def test_doctor_passes_an_intact_data_directory(invoke: Invoke, data: Path) -> None:
    code, checks = examine(invoke)
    assert code == 0
    assert checks["database"]["level"] == "ok"
    assert checks["data directory"]["level"] == "ok"
    assert ", 1 sessions, " in checks["database"]["text"]
    assert checks["processes"]["text"] == "0 running"


def test_a_file_that_is_no_database_is_broken(invoke: Invoke, data: Path) -> None:
    (data / "asyncagents.db").write_bytes(b"not a database at all" * 100)
    code, checks = examine(invoke)
    assert code == 1
    assert checks["database"]["level"] == "fail"
    assert "file is not a database" in checks["database"]["text"]


def test_a_damaged_page_is_found(invoke: Invoke, data: Path) -> None:
    path = data / "asyncagents.db"
    raw = bytearray(path.read_bytes())
    raw[8192:12288] = os.urandom(4096)
    path.write_bytes(raw)
    code, checks = examine(invoke)
    assert code == 1
    assert checks["database"]["level"] == "fail"


def test_doctor_and_sessions_refuse_a_newer_database_with_a_hint(invoke: Invoke, data: Path) -> None:
    with database(data) as connection:
        connection.execute("UPDATE schema SET version = 99, min_reader = 99")
    code, checks = examine(invoke)
    listed = invoke("sessions")
    assert code == 1
    assert checks["database"]["hint"] == "`pip install --upgrade asyncagents`"
    assert listed.exit_code == 1
    assert listed.stdout == ""
    assert listed.stderr.startswith("error: the database has schema 99")
    assert "hint: `pip install --upgrade asyncagents`" in listed.stderr


def test_doctor_warns_of_a_locked_database(
    invoke: Invoke, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncagents.store.sqlite.inspect.PATIENCE_SECONDS", 0.01)
    with database(data) as connection:
        connection.execute("BEGIN IMMEDIATE")
        code, checks = examine(invoke)
    assert code == 0
    assert checks["database"]["level"] == "warn"
    assert "has it locked" in checks["database"]["text"]


def test_doctor_fails_a_data_directory_at_or_below_a_file(
    invoke: Invoke, desk: ConfigDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.write("a-file", "x")
    for path in (file, file / "below"):
        monkeypatch.setenv("ASYNCAGENTS_DATA_DIR", str(path))
        code, checks = examine(invoke)
        assert code == 1
        assert checks["data directory"]["level"] == "fail"
        assert ("database" in checks) is False


def test_doctor_hints_at_chmod_for_data_that_other_users_may_read(invoke: Invoke, data: Path) -> None:
    os.chmod(data / "asyncagents.db", 0o644)
    os.chmod(data, 0o755)
    code, checks = examine(invoke)
    assert code == 0
    assert checks["database"]["hint"] == f"`chmod 600 {data / 'asyncagents.db'}`"
    assert checks["data directory"]["hint"] == f"`chmod 700 {data}`"


def test_doctor_counts_live_and_dead_processes_and_keeps_their_locks(invoke: Invoke, data: Path) -> None:
    with database(data) as connection:
        connection.execute("UPDATE session SET state = 'running', owner = 'dead'")
    for name in ("dead", "alive"):
        (data / "owners" / f"{name}.lock").touch()
    with (data / "owners" / "alive.lock").open() as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        _, checks = examine(invoke)
        with database(data) as connection:
            connection.execute("UPDATE session SET owner = 'alive'")
        _, later = examine(invoke)
    assert checks["processes"]["text"] == "1 running, 1 died"
    assert checks["sessions"]["level"] == "warn"
    assert ("sessions" in later) is False
    assert sorted(path.stem for path in (data / "owners").glob("*.lock")) == ["alive", "dead"]


def test_doctor_fails_an_unusable_model_and_a_broken_config(
    invoke: Invoke, desk: ConfigDesk, data: Path
) -> None:
    desk.write("asyncagents.json", {"model": "anthropic/claude-sonnet-4-5", "modle": 1})
    code, checks = examine(invoke)
    desk.write("asyncagents.json", "{")
    broken, others = examine(invoke)
    assert code == 1
    assert checks["model"]["level"] == "fail"
    assert "ANTHROPIC_API_KEY" in checks["model"]["hint"]
    assert checks["config"]["level"] == "warn"
    assert broken == 1
    assert others["config"]["level"] == "fail"
    assert others["database"]["level"] == "ok"


def test_doctor_names_the_origin_of_a_key_and_not_its_value(
    invoke: Invoke, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret")
    ended = invoke("doctor")
    assert "ok    groq" in ended.stdout
    assert "its key comes from $GROQ_API_KEY" in ended.stdout
    assert "gsk-secret" not in ended.output


def test_system_checks_only_pass_or_warn() -> None:
    assert all(check.level in {"ok", "warn"} for check in check_system())
    assert has_openat2() in {True, False}


@pytest.mark.spec("A-01", "A-06")
def test_agents_and_skills_that_cannot_be_used_are_named(invoke: Invoke, desk: ConfigDesk) -> None:
    agent = desk.write(".asyncagents/agents/bad.md", "no head")
    skill = desk.write(".asyncagents/skills/bad/SKILL.md", "no head")
    desk.write(".asyncagents/skills/good/SKILL.md", "---\nname: good\ndescription: Helps.\n---\nDo.\n")
    found = msgspec.json.decode(invoke("doctor", "--json").stdout)["checks"]
    told = {(each["level"], each["name"]): each["text"] for each in found}
    assert told["warn", "agents"].startswith(f"{agent} has no head")
    assert told["warn", "skills"].startswith(f"{skill} has no head")
    assert told["ok", "skills"] == "good"
    assert told["ok", "agents"] == "build, explore, general, plan; build is the default"


def test_doctor_fails_an_unknown_default_agent(invoke: Invoke, desk: ConfigDesk) -> None:
    desk.write("asyncagents.json", {"default_agent": "nobody"})
    code, checks = examine(invoke)
    assert code == 1
    assert checks["agents"]["level"] == "fail"
    assert "default_agent is 'nobody'" in checks["agents"]["text"]


def test_doctor_names_missing_programs_and_the_consequence(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _, without = examine(invoke)
    for name in ("git", "rg"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    _, with_them = examine(invoke)
    assert without["git"]["level"] == "warn"
    assert without["rg"]["level"] == "ok"
    assert "cannot be undone" in without["git"]["text"]
    assert "ripgrep" in without["rg"]["hint"]
    assert with_them["git"]["text"] == str(tmp_path / "git")
    assert with_them["rg"]["text"] == str(tmp_path / "rg")


@pytest.mark.spec("X-03")
def test_backends_are_started_and_asked_what_they_can_do(
    invoke: Invoke, desk: ConfigDesk, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(AgentScript(loads=False)))
    command = [sys.executable, "-m", "asyncagents.testing.acp_agent", str(script), str(tmp_path / "memory")]
    backends = {"good": command, "mute": ["/bin/true"], "gone": ["/nowhere/agent"]}
    agents = {name: {"backend": {"acp": words}} for name, words in backends.items()}
    desk.write("asyncagents.json", {"agent": agents, "pass_environment": ["PYTHONPATH"]})
    code, checks = examine(invoke)
    assert code == 1
    assert checks["agent good"]["level"] == "ok"
    assert checks["agent good"]["text"].endswith("version 1.0, resumes sessions")
    assert checks["agent mute"]["level"] == checks["agent gone"]["level"] == "fail"
    assert "exit code 0" in checks["agent mute"]["text"]
