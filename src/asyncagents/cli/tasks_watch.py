"""The forest as it changes: drawn over itself on a terminal, told in lines elsewhere."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from asyncagents.cli.screen import one_line
from asyncagents.cli.tasks_tree import Node, Scope, as_builtins, forest
from asyncagents.cli.tasks_view import Drawn, Style, drawn, name_of, state_text
from asyncagents.domain.id import SessionId
from asyncagents.engine.runtime import Runtime

LOOK_SECONDS = 0.2

See: TypeAlias = Callable[[Sequence[Node]], None]
"""Shows how it is now."""


async def watch_forest(runtime: Runtime, scope: Scope, style: Style) -> tuple[Node, ...]:
    """Until nothing is at work; returns what was seen last."""
    told: set[SessionId] = set()
    with _watching(style) as see:
        while True:
            nodes = await forest(runtime, scope)
            see(nodes)
            _warn(nodes, told)
            if not any(node.at_work for node in nodes):
                return nodes
            await asyncio.sleep(LOOK_SECONDS)


def _warn(nodes: Sequence[Node], told: set[SessionId]) -> None:
    """Where nobody works nothing may ever change."""
    for node in nodes:
        if node.session.id not in told and any(each.state == "left" for each in flat(node)):
            told.add(node.session.id)
            again = f"`asyncagents run --session {node.session.id}` goes on"
            click.echo(f"warning: there is work that nobody does: {again}", err=True)


@contextmanager
def _watching(style: Style) -> Iterator[See]:
    if style.as_json:
        yield Snapshots().see
    elif sys.stdout.isatty():
        with drawing(Console(highlight=False, markup=False, emoji=False), style) as see:
            yield see
    else:
        yield Changes(click.echo).see


@contextmanager
def drawing(console: Console, style: Style) -> Iterator[See]:
    """Each picture in the place of the one before; the last one stays."""
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
    """A line of JSON whenever something has changed."""

    def __init__(self) -> None:
        self._last = b""

    def see(self, nodes: Sequence[Node]) -> None:
        now = msgspec.json.encode([as_builtins(node) for node in nodes])
        if now != self._last:
            self._last = now
            click.echo(now)
            sys.stdout.flush()


class Changes:
    """A line for every state that a session or task comes into."""

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
