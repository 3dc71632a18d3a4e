"""What goes wrong is one sentence, a hint and the right exit code; never a traceback, unless asked for."""

import errno
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from asyncagents.cli.exit import CliError, as_cli_error
from asyncagents.cli.main import LazyGroup
from asyncagents.errors import (
    ConfigError,
    InvalidInput,
    ModelError,
    NotFound,
    SchemaMismatch,
    StoreError,
    ToolError,
)


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (ConfigError("model is a number"), 2, ""),
        (InvalidInput("no"), 2, ""),
        (ModelError("no key"), 2, ""),
        (NotFound("session", "ses_1"), 2, "sessions --all"),
        (StoreError("the database could not be written: database or disk is full"), 1, "free some space"),
        (StoreError("database is locked"), 1, "another program has locked"),
        (StoreError("file is not a database"), 1, "doctor"),
        (StoreError("the database is out of reach: it did not answer in time"), 1, "ASYNCAGENTS_STORE"),
        (SchemaMismatch("needs schema 9. Upgrade asyncagents."), 1, "pip install --upgrade"),
        (ToolError("x"), 1, ""),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "free some space"),
        (OSError(errno.EROFS, "Read-only file system"), 1, "make the data directory writable"),
        (StoreError("the data directory /d cannot be written: Permission denied"), 1, "--data-dir"),
        (StoreError("the data directory /d cannot be written: No space left on device"), 1, "free some"),
        (StoreError("the database /d/x.db could not be opened: Permission denied"), 1, "writable"),
        (StoreError("the database refused the connection: permission denied for schema x"), 1, ""),
        (OSError(errno.EACCES, "Permission denied", "/data"), 1, ""),
        (ValueError("oops"), 1, "ASYNCAGENTS_DEBUG=1"),
    ],
)
def test_each_error_has_its_code_and_its_hint(error: Exception, code: int, hint: str) -> None:
    told = as_cli_error(error)
    assert told.exit_code == code
    assert hint in told.hint
    assert bool(hint) == bool(told.hint)
    assert "\n" not in told.message


def test_a_system_error_names_its_file() -> None:
    assert (
        as_cli_error(OSError(errno.EACCES, "Permission denied", "/data")).message
        == "/data: Permission denied"
    )


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], Result]:
    """Run a command that ends with an error."""

    def end(error: Exception) -> Result:
        def fail() -> None:
            raise error

        group = LazyGroup("asyncagents")
        monkeypatch.setattr(group, "get_command", lambda ctx, name: click.Command(name, callback=fail))
        return CliRunner().invoke(group, ["x"])

    return end


def test_an_exception_group_is_shown_as_its_first_error(
    ending: Callable[[Exception], Result],
) -> None:
    inner = ExceptionGroup("tasks", [CliError("it broke", hint="mend it", code=3)])
    ended = ending(ExceptionGroup("tasks", [inner, ValueError("and another")]))
    assert ended.exit_code == 3
    assert ended.stdout == ""
    assert ended.stderr == "error: it broke\nhint: mend it\n"


def test_an_unexpected_error_is_called_a_bug_with_a_traceback_on_request(
    ending: Callable[[Exception], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = ending(KeyError("nobody"))
    monkeypatch.setenv("ASYNCAGENTS_DEBUG", "1")
    loud = ending(KeyError("nobody"))
    assert quiet.exit_code == 1
    assert loud.exit_code == 1
    assert quiet.stderr.startswith("error: this is a bug in asyncagents: KeyError: 'nobody'\n")
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr


@pytest.mark.parametrize(("error", "code"), [(click.Abort(), 130), (BrokenPipeError(), 141)])
def test_a_click_abort_or_broken_pipe_exits_without_output(
    ending: Callable[[Exception], Result], error: Exception, code: int
) -> None:
    ended = ending(error)
    assert ended.exit_code == code
    assert ended.output == ""
