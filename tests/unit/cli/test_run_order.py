"""What cannot be carried out is refused before anything is stored."""

from collections.abc import Callable

import pytest
from click.testing import Result

from asyncagents.cli.run.arguments import LONGEST_PROMPT as LARGEST
from tests.support.environment import ConfigDesk

Invoke = Callable[..., Result]
LOCAL = {
    "provider": {
        "local": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:9/v1"},
            "models": {"m": {}},
        }
    }
}
NO_KEY = "there is no API key for anthropic: set ANTHROPIC_API_KEY"


@pytest.mark.spec("X-06")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "error: the prompt is empty\nhint: "),
        (("   ",), "error: the prompt is empty"),
        (("--model", "nope", "Hi"), "error: 'nope' is no model; write it as \"provider/model\""),
        (("--model", "local/other", "Hi"), "error: provider local has no model 'other': there are m"),
        (("--model", "locl/m", "Hi"), "error: there is no provider 'locl': did you mean 'local'?"),
        (("--model", "anthropic/claude-sonnet-4-5", "Hi"), f"error: {NO_KEY}"),
        (("--agent", "buidl", "Hi"), "error: there is no agent 'buidl': did you mean 'build'?"),
        (("--session", "ses_1", "Hi"), "error: no session with id 'ses_1'\nhint: `asyncagents sessions"),
        (("--continue",), "error: there is no session of "),
        (("--session", "x", "--continue"), "--session and --continue both choose"),
        (("--session", "x", "--title", "t", "Hi"), "--title is for a new session"),
        (("--session", "x", "--detach"), "--detach needs a prompt"),
        (("--continue", "--key", "k"), "--key needs a prompt"),
        (("--file", "missing.txt", "Hi"), "'missing.txt' does not exist"),
        (("--file", ".", "Hi"), "'.' is a directory"),
        (("--format", "yaml", "Hi"), "Invalid value for '--format'"),
        (("--directory", "missing", "Hi"), "'missing' does not exist"),
    ],
)
def test_an_invalid_run_command_prints_an_error_and_stores_no_session(
    invoke: Invoke, desk: ConfigDesk, words: tuple[str, ...], said: str
) -> None:
    desk.write("asyncagents.json", LOCAL)
    ended = invoke("run", *words)
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    listed = invoke("sessions", "--all", "--json")
    assert listed.exit_code == 0
    assert listed.stdout == "[]\n"


def test_a_broken_config_and_a_data_directory_that_is_a_file_are_refused(
    invoke: Invoke, desk: ConfigDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.write("a-file", "x")
    monkeypatch.setenv("ASYNCAGENTS_DATA_DIR", str(file))
    in_the_way = invoke("run", "Hi")
    monkeypatch.delenv("ASYNCAGENTS_DATA_DIR")
    desk.write("asyncagents.json", "{")
    broken = invoke("run", "Hi")
    assert in_the_way.exit_code == 2
    assert broken.exit_code == 2
    assert in_the_way.stderr.startswith(f"error: the data directory {file} is not a directory\nhint: choose")
    assert broken.stderr.startswith("error: ")
    assert "is not valid JSON at line 1" in broken.stderr


def test_a_run_without_any_key_or_model_names_a_key_to_set(invoke: Invoke) -> None:
    ended = invoke("run", "Hi")
    assert ended.exit_code == 2
    assert "there is no model to ask: set a key such as ANTHROPIC_API_KEY" in ended.stderr


def test_stdin_must_be_text_of_a_sane_length(invoke: Invoke, desk: ConfigDesk) -> None:
    desk.write("asyncagents.json", LOCAL)
    binary = invoke("run", stdin=b"\xff\xfe\x00")
    endless = invoke("run", stdin=bytes(LARGEST + 1))
    assert binary.exit_code == 2
    assert endless.exit_code == 2
    assert "not UTF-8 text" in binary.stderr
    assert "stdin has more than 10 MiB" in endless.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\x02\xff", "neither text nor an image nor a PDF"),
        (b"caf\xe9", "neither text nor an image nor a PDF"),
        (bytes(LARGEST + 1), "larger than 10 MiB"),
    ],
)
def test_a_file_that_no_model_could_read_is_refused(
    invoke: Invoke, desk: ConfigDesk, content: bytes, said: str
) -> None:
    desk.write("asyncagents.json", LOCAL)
    (desk.project / "a.dat").write_bytes(content)
    ended = invoke("run", "Hi", "--file", "a.dat")
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert said in ended.stderr
