"""Shows task trees once or as they change: redrawn on a terminal, as lines elsewhere."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import TypeAlias

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.exit import WAITING
from asyncagents.cli.inspect.draw_task_tree import (
    WIDEST,
    TreeLine,
    TreeStyle,
    draw_forest,
    node_name,
    print_forest,
    print_json,
    print_no_tasks,
    state_text,
)
from asyncagents.cli.inspect.read_task_tree import NONE, TaskNode, TaskScope, as_builtins, read_forest
from asyncagents.cli.lookup import with_runtime
from asyncagents.cli.terminal.live import can_redraw, open_live_lines
from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import WhyCode
from asyncagents.engine.runtime.runtime import Runtime

POLL_SECONDS = 0.2
STRANDED_LOOKS = 15
"""Polls in a row without a process before giving up: a server may be restarting."""
WORKING: frozenset[WhyCode] = frozenset({"working", "tool", "ready"})

ShowForest: TypeAlias = Callable[[Sequence[TaskNode]], None]
"""Shows the current forest."""
PrintLine: TypeAlias = Callable[[str], object]
"""Prints a line that is not redrawn."""


class WatchResult(Struct, frozen=True):
    nodes: tuple[TaskNode, ...] = ()
    """The forest at the last poll."""
    stranded: bool = False
    """True if the watch ended because no process does the work that is left."""


def show_tasks(data: Path, scope: TaskScope, style: TreeStyle, *, watch: bool) -> None:
    """Print the forest once, or show it until nothing is at work."""
    if watch:
        result = asyncio.run(
            with_runtime(data, lambda runtime: watch_forest(runtime, scope, style), nothing=WatchResult())
        )
        shown = nodes_or_exit(result)
    else:
        shown = asyncio.run(with_runtime(data, lambda runtime: read_forest(runtime, scope), nothing=NONE))
        print_json(shown) if style.as_json else print_forest(shown, style)
    if not shown and not style.as_json:
        print_no_tasks(scope)


async def watch_forest(runtime: Runtime, scope: TaskScope, style: TreeStyle) -> WatchResult:
    """Show the forest until nothing is at work or, without a terminal, no process works on what is left."""
    warned_ids: set[SessionId] = set()
    looks = 0
    with _open_display(style) as (see, tell):
        while True:
            nodes = await read_forest(runtime, scope)
            see(nodes)
            _warn_unserved(nodes, warned_ids, tell)
            if not any(node.at_work for node in nodes):
                return WatchResult(nodes)
            looks = looks + 1 if is_stranded(nodes) and not sys.stdout.isatty() else 0
            if looks >= STRANDED_LOOKS:
                return WatchResult(nodes, stranded=True)
            await asyncio.sleep(POLL_SECONDS)


def nodes_or_exit(result: WatchResult) -> tuple[TaskNode, ...]:
    """Return the last forest; exit with code 3 if no process does the work that is left."""
    if not result.stranded:
        return result.nodes
    click.echo(
        "no process does the work that is left, and without a terminal --watch does not wait for one",
        err=True,
    )
    raise click.exceptions.Exit(WAITING)


def is_stranded(nodes: Sequence[TaskNode]) -> bool:
    """Return whether every tree with work left lacks a process, and no process works in any."""
    trees = [[*flatten(node)] for node in nodes if node.at_work]
    working = any(each.why is not None and each.why.code in WORKING for tree in trees for each in tree)
    return not working and all(any(each.state == "left" for each in tree) for tree in trees)


def _warn_unserved(nodes: Sequence[TaskNode], warned_ids: set[SessionId], tell: PrintLine) -> None:
    """Warn once for each tree that it has work which no process does."""
    for node in nodes:
        if node.session.id not in warned_ids and any(each.state == "left" for each in flatten(node)):
            warned_ids.add(node.session.id)
            again = f"`asyncagents run --session {node.session.id}` continues it"
            tell(f"warning: there is work that no process does: {again}")


@contextmanager
def _open_display(style: TreeStyle) -> Iterator[tuple[ShowForest, PrintLine]]:
    tell = partial(click.echo, err=True)
    if style.as_json:
        yield JsonSnapshots().show, tell
    elif can_redraw():
        with open_live_tree(style) as see:
            yield see, tell
    else:
        yield StateChanges(click.echo).show, tell


@contextmanager
def open_live_tree(style: TreeStyle, widest: int = WIDEST) -> Iterator[ShowForest]:
    """Redraw the forest in place; the last drawing stays."""
    last: list[TreeLine] = []
    with open_live_lines() as live:

        def see(nodes: Sequence[TaskNode]) -> None:
            lines = draw_forest(nodes, style, min(widest, get_terminal_size().columns))
            if lines != last:
                last[:] = lines
                live.show([line.styled_text for line in lines])

        yield see


class JsonSnapshots:
    """Prints the forest as a JSON line whenever it changes."""

    def __init__(self) -> None:
        self._last = b""

    def show(self, nodes: Sequence[TaskNode]) -> None:
        now = msgspec.json.encode([as_builtins(node) for node in nodes])
        if now != self._last:
            self._last = now
            click.echo(now)
            sys.stdout.flush()


class StateChanges:
    """Prints a line for each new state of a session or task."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._states: dict[SessionId, str] = {}

    def show(self, nodes: Sequence[TaskNode]) -> None:
        for node in (each for root in nodes for each in flatten(root)):
            state = state_text(node)
            if self._states.get(node.session.id) != state:
                self._states[node.session.id] = state
                agent = one_line(node.session.agent or "-", 40)
                self._tell(f"{node_name(node)} ({agent}): {state}, {node.session.id}")


def flatten(node: TaskNode) -> Iterator[TaskNode]:
    yield node
    for each in node.below:
        yield from flatten(each)
