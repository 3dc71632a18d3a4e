"""The command line as a whole: help, version, bad usage, and commands that load only when used."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import click
import pytest

from asyncagents.cli.main import COMMANDS, main
from asyncagents.version import VERSION

PROGRAM = str(Path(sys.executable).with_name("asyncagents"))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", [(PROGRAM,), (sys.executable, "-m", "asyncagents")])
def test_the_version_option_prints_the_version(command: tuple[str, ...]) -> None:
    ran = run(*command, "--version")
    assert ran.stdout == f"asyncagents {version('asyncagents')}\n"
    assert ran.returncode == 0
    assert version("asyncagents") == VERSION


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_lists_every_command(flag: str) -> None:
    ran = run(PROGRAM, flag)
    assert ran.returncode == 0
    assert all(name in ran.stdout and summary in ran.stdout for name, (_, summary) in COMMANDS.items())


@pytest.mark.parametrize("words", [(), ("dmo",), ("--bogus",), ("demo", "--bogus"), ("demo", "extra")])
def test_bad_usage_exits_with_2_and_prints_the_usage(words: tuple[str, ...]) -> None:
    ran = run(PROGRAM, *words)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "Usage: asyncagents" in ran.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_of_a_command_is_the_first_line_of_its_help(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").partition("\n")[0] == COMMANDS[name][1]


def test_help_loads_no_command() -> None:
    loaded = "[name for name in sys.modules if name.startswith(('rich', 'asyncagents.cli.'))]"
    ran = run(sys.executable, "-c", f"import sys, asyncagents.cli.main; print({loaded})")
    assert ran.stdout == "['asyncagents.cli.exit', 'asyncagents.cli.main']\n"
