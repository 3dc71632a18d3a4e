"""Shows task trees as they change: redrawn on a terminal, as lines elsewhere."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import click
import msgspec
from msgspec import Struct
from rich.console import Console
from rich.live import Live
from rich.text import Text

from asyncagents.cli.exit import WAITING
from asyncagents.cli.inspect.task_table import Drawn, Style, drawn, name_of, state_text
from asyncagents.cli.inspect.task_tree import Node, Scope, as_builtins, forest
from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import Code
from asyncagents.engine.runtime.runtime import Runtime

LOOK_SECONDS = 0.2
STRANDED_LOOKS = 15
"""Polls in a row without a process before giving up: a server may be restarting."""
WORKING: frozenset[Code] = frozenset({"working", "tool", "ready"})

See: TypeAlias = Callable[[Sequence[Node]], None]
"""Shows the current forest."""
Tell: TypeAlias = Callable[[str], object]
"""Prints a line that is not redrawn."""


class Watched(Struct, frozen=True):
    nodes: tuple[Node, ...] = ()
    """The forest at the last poll."""
    stranded: bool = False
    """True if the watch ended because no process does the work that is left."""


async def watch_forest(runtime: Runtime, scope: Scope, style: Style) -> Watched:
    """Show the forest until nothing is at work or, without a terminal, no process works on what is left."""
    told: set[SessionId] = set()
    looks = 0
    with _watching(style) as (see, tell):
        while True:
            nodes = await forest(runtime, scope)
            see(nodes)
            _warn(nodes, told, tell)
            if not any(node.at_work for node in nodes):
                return Watched(nodes)
            looks = looks + 1 if is_stranded(nodes) and not sys.stdout.isatty() else 0
            if looks >= STRANDED_LOOKS:
                return Watched(nodes, stranded=True)
            await asyncio.sleep(LOOK_SECONDS)


def unless_stranded(seen: Watched) -> tuple[Node, ...]:
    """Return the last forest; exit with code 3 if no process does the work that is left."""
    if not seen.stranded:
        return seen.nodes
    click.echo(
        "no process does the work that is left, and without a terminal --watch does not wait for one",
        err=True,
    )
    raise click.exceptions.Exit(WAITING)


def is_stranded(nodes: Sequence[Node]) -> bool:
    """Return whether every tree with work left lacks a process, and no process works in any."""
    trees = [[*flat(node)] for node in nodes if node.at_work]
    working = any(each.why is not None and each.why.code in WORKING for tree in trees for each in tree)
    return not working and all(any(each.state == "left" for each in tree) for tree in trees)


def _warn(nodes: Sequence[Node], told: set[SessionId], tell: Tell) -> None:
    """Warn once for each tree that it has work which no process does."""
    for node in nodes:
        if node.session.id not in told and any(each.state == "left" for each in flat(node)):
            told.add(node.session.id)
            again = f"`asyncagents run --session {node.session.id}` continues it"
            tell(f"warning: there is work that no process does: {again}")


@contextmanager
def _watching(style: Style) -> Iterator[tuple[See, Tell]]:
    tell = partial(click.echo, err=True)
    if style.as_json:
        yield Snapshots().see, tell
    elif sys.stdout.isatty():
        console = Console(highlight=False, markup=False, emoji=False)
        with drawing(console, style) as see:
            # Through the same console: output of another stream would be drawn over.
            yield see, lambda text: console.print(Text(text))
    else:
        yield Changes(click.echo).see, tell


@contextmanager
def drawing(console: Console, style: Style) -> Iterator[See]:
    """Redraw the forest in place; the last drawing stays."""
    last: list[Drawn] = []
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:

        def see(nodes: Sequence[Node]) -> None:
            lines = drawn(nodes, style, console.width)
            if lines == last:
                return
            last[:] = lines
            texts = [Text(line.text, style="dim" if line.faint else "") for line in lines]
            live.update(Text("\n", no_wrap=True, overflow="crop").join(texts), refresh=True)

        yield see


class Snapshots:
    """Prints the forest as a JSON line whenever it changes."""

    def __init__(self) -> None:
        self._last = b""

    def see(self, nodes: Sequence[Node]) -> None:
        now = msgspec.json.encode([as_builtins(node) for node in nodes])
        if now != self._last:
            self._last = now
            click.echo(now)
            sys.stdout.flush()


class Changes:
    """Prints a line for each new state of a session or task."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._states: dict[SessionId, str] = {}

    def see(self, nodes: Sequence[Node]) -> None:
        for node in (each for root in nodes for each in flat(root)):
            state = state_text(node)
            if self._states.get(node.session.id) != state:
                self._states[node.session.id] = state
                agent = one_line(node.session.agent or "-", 40)
                self._tell(f"{name_of(node)} ({agent}): {state}, {node.session.id}")


def flat(node: Node) -> Iterator[Node]:
    yield node
    for each in node.below:
        yield from flat(each)
