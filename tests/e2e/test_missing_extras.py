"""What needs an optional extra that is not installed fails with the command that installs the extra."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
)
PROGRAM = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))  # as if they were not installed
from asyncagents.cli.main import main
main()
"""
STORE = "postgresql://a@127.0.0.1:1/a"


class Case(Struct, frozen=True):
    """A command that needs an extra."""

    extra: str
    modules: str
    words: tuple[str, ...]
    config: dict[str, object] = {}
    store: str = ""


SERVER: dict[str, object] = {"mcp": {"notes": {"type": "local", "command": [sys.executable, "-c", "pass"]}}}
KEY = {"options": {"apiKey": "k"}}
GOOGLE: dict[str, object] = {"provider": {"google": KEY}}
COHERE: dict[str, object] = {"provider": {"cohere": KEY}}
UNKNOWN: dict[str, object] = {"provider": {"x": {**KEY, "npm": "@ai-sdk/snowflake", "models": {"m": {}}}}}
LOCAL = {
    "npm": "@ai-sdk/openai-compatible",
    "options": {"baseURL": "http://127.0.0.1:1"},
    "models": {"m": {}},
}
TRACED: dict[str, object] = {"model": "x/m", "provider": {"x": LOCAL}, "telemetry": {"enabled": True}}

CASES = [
    Case("mcp", "mcp mcp_types", ("mcp", "list"), SERVER),
    Case("mcp", "mcp mcp_types", ("doctor",), SERVER),
    Case("postgres", "asyncpg", ("sessions",), store=STORE),
    Case("postgres", "asyncpg", ("migrate",), store=STORE),
    Case("postgres", "asyncpg", ("migrate", "--from", "."), store=STORE),
    Case("postgres", "asyncpg", ("doctor",), store=STORE),
    Case("postgres", "pgqueuer", ("sessions",), store=STORE),
    Case("providers", "pydantic_ai", ("run", "Hi", "--model", "google/gemini-3.8-flash"), GOOGLE),
    Case("providers", "google.genai", ("run", "Hi", "--model", "google/gemini-3.8-flash"), GOOGLE),
    Case("providers", "pydantic_ai.direct", ("run", "Hi", "--model", "google/gemini-3.8-flash"), GOOGLE),
    Case("providers", "pydantic_ai", ("models", "google/gemini-3.8-flash"), GOOGLE),
    Case("providers", "pydantic_ai", ("models", "google/gemini-3.8-flash")),
    Case("providers", "pydantic_ai", ("run", "Hi"), GOOGLE),
    Case("providers", "pydantic_ai", ("run", "Hi"), COHERE),
    Case("providers", "pydantic_ai", ("doctor",), GOOGLE),
    Case("providers", "pydantic_ai", ("run", "Hi", "--model", "x/m"), UNKNOWN),
    Case("telemetry", "opentelemetry", ("run", "Hi"), TRACED),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.extra}-{'-'.join(case.words[:2])}")
def test_a_command_without_its_extra_names_the_command_that_installs_it(case: Case, tmp_path: Path) -> None:
    config = tmp_path / "home" / ".config" / "asyncagents" / "asyncagents.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps(case.config), encoding="utf-8")
    project = tmp_path / "project"
    project.mkdir()
    environment = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
    }
    if case.store:
        environment["ASYNCAGENTS_STORE"] = case.store
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, case.modules, *case.words],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f"pip install 'asyncagents[{case.extra}]'" in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_there_is_a_command_for_every_extra() -> None:
    assert {case.extra for case in CASES} == EXTRAS


def test_every_text_quotes_the_extra_for_the_shell_and_names_one_that_exists() -> None:
    """A shell such as zsh takes square brackets without quotes as a pattern."""
    found = [
        (path.name, before, extra)
        for path in sorted((ROOT / "src").rglob("*.py"))
        for before, extra in re.findall(r"(.)asyncagents\[(\w+)\]", path.read_text(encoding="utf-8"))
    ]
    assert [each for each in found if each[1] != "'" or each[2] not in EXTRAS] == []
    assert {extra for _, _, extra in found} == EXTRAS
