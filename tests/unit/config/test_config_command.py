"""`asyncagents config`, as a person runs it."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from asyncagents.cli.project.config import config
from asyncagents.config.file.schema import config_schema_text
from tests.support.environment import ConfigDesk


@pytest.fixture
def run(desk: ConfigDesk, monkeypatch: pytest.MonkeyPatch) -> "Run":
    for name in list(os.environ):
        if name.startswith(("XDG_", "ASYNCAGENTS_", "OPENCODE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(desk.home))
    monkeypatch.setenv("GROQ_API_KEY", "gsk-secret")
    monkeypatch.chdir(desk.project)
    return Run()


class Run:
    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(config, arguments)


def test_each_value_is_shown_with_where_it_came_from(run: Run, desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"model": "groq/x", "agent": {"a": {"prompt": "long " * 50}}})
    result = run()
    assert result.exit_code == 0
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines()]
    assert ["model", "groq/x", str(file)] in rows
    assert ["provider.groq.options.apiKey", "***", "$GROQ_API_KEY"] in rows
    assert ["compaction.auto", "true", "default"] in rows
    assert "gsk-secret" not in result.output
    assert max(len(line) for line in result.stdout.splitlines()) < 250


def test_json_has_the_whole_value_and_its_origin(run: Run, desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"agent": {"a": {"prompt": "long " * 50}}})
    rows = json.loads(run("--json").stdout)
    assert rows["agent.a.prompt"] == {"value": "long " * 50, "origin": str(file)}
    assert rows["provider.groq.options.apiKey"] == {"value": "***", "origin": "$GROQ_API_KEY"}


def test_warnings_go_to_stderr(run: Run, desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"modle": 1})
    result = run("--json")
    assert json.loads(result.stdout)
    assert 'did you mean "model"?' in result.stderr


def test_a_broken_file_is_one_sentence_and_exit_2(run: Run, desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", "{")
    result = run()
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {file} is not valid JSON at line 1, column 2: ")
    assert result.stdout == ""


def test_the_paths_are_listed_even_if_a_file_is_broken(run: Run, desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", "{")
    lines = run("--paths").stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("read")] == [["read", "project", str(file)]]
    assert lines[0].split() == ["-", "global", str(desk.home / ".config" / "opencode" / "opencode.json")]


def test_the_schema_is_printed(run: Run) -> None:
    assert run("--schema").stdout == config_schema_text()


def test_another_project_and_another_data_folder_can_be_named(
    run: Run, desk: ConfigDesk, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    desk.write(str(other / "opencode.json"), {"default_agent": "plan"})
    rows = json.loads(run("--json", "--directory", str(other), "--data-dir", "d").stdout)
    assert rows["default_agent"]["value"] == "plan"
    assert rows["data_dir"] == {"value": str(desk.project / "d"), "origin": "--data-dir"}
