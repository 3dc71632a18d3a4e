"""Offers to trust a project when a command fails because it is not trusted, and retries the command."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from asyncagents.cli.exit import first_error
from asyncagents.cli.project.trust_requests import escape_unprintable, request_lines, trust_requests
from asyncagents.cli.terminal.keyboard import Keyboard, find_keyboard
from asyncagents.cli.terminal.screen import Screen
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.load import LoadedConfig, load_config
from asyncagents.config.trust import is_trusted, project_root, trust_project
from asyncagents.errors import NotTrusted
from asyncagents.llm.roster import Roster

T = TypeVar("T")

CONSEQUENCE = "Trusted files may send, run and read what they name, also when they change."
YES = {"y", "yes"}


def with_trust(directory: Path, screen: Screen, work: Callable[[], T], *, offers: bool = True) -> T:
    """Run `work`; if it raises `NotTrusted`, offer to trust the project at the terminal and run it again.

    `work` must have no effect before it raises `NotTrusted`.
    """
    try:
        return work()
    except Exception as error:
        cause = first_error(error)
        if not (isinstance(cause, NotTrusted) and offers and offer_trust(cause, directory, screen)):
            raise
    return work()


def load_with_trust(directory: Path, data: Path, screen: Screen) -> LoadedConfig:
    """Load the configuration of a server or worker, and print its warnings.

    If its model is in an untrusted file, offer to trust it at the terminal; a no leaves it untrusted.
    """
    environment = system_environment()
    loaded = load_config(environment, directory=directory, data_dir=data)
    error = untrusted_model(loaded.config)
    if error is not None and offer_trust(error, directory, screen):
        loaded = load_config(environment, directory=directory, data_dir=data)
    for warning in loaded.warnings:
        screen.warn(warning)
    return loaded


def untrusted_model(config: Config) -> NotTrusted | None:
    """Return the error of the default model, if it cannot be used because the project is not trusted."""
    roster = Roster(config)
    ref = roster.default_model()
    problem = roster.problem(ref) if ref is not None else roster.default_problem()
    error = problem.error() if problem is not None else None
    return error if isinstance(error, NotTrusted) else None


def offer_trust(error: NotTrusted, directory: Path, screen: Screen) -> bool:
    """Show what the project's files ask for, and trust the project if the person agrees."""
    environment = system_environment()
    keyboard = find_keyboard()
    if keyboard is None or is_trusted(environment, directory):
        return False
    root = project_root(environment, directory)
    found = trust_requests(environment, directory, root)
    lines, cut = request_lines(found)
    screen.print_line(f"{escape_unprintable(error.fact)}, which is not trusted.")
    screen.print_line(f"The files of {escape_unprintable(str(root))} ask for:")
    for line in lines:
        screen.print_line(line)
    screen.print_line(CONSEQUENCE)
    question = f"Trust this project? [y/N{'; s shows all' if cut else ''}] "
    while (answer := _read_answer(keyboard, screen, question)) == "s" and cut:
        for line in request_lines(found, whole=True)[0]:
            screen.print_line(line)
    if answer not in YES:
        return False
    trust_project(environment, root)
    screen.note("trusted; `asyncagents trust --remove` removes the trust")
    return True


def _read_answer(keyboard: Keyboard, screen: Screen, question: str) -> str:
    """Ask, and return the typed line in lower case; empty at the end of input."""
    keyboard.discard_input()
    screen.show_prompt(question)
    line = asyncio.run(keyboard.read_line())
    if line is not None:
        screen.mark_answered()
    screen.clear_prompt()
    return (line or "").lower()
