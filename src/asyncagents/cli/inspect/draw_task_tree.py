"""Renders task trees as lines in columns, or JSON."""

import sys
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.cli.inspect.read_task_tree import TaskNode, TaskScope, as_builtins
from asyncagents.cli.terminal.labels import count_text, run_duration, session_label, tools_text
from asyncagents.cli.terminal.screen import NARROWEST, ago, dollars, one_line, token_text
from asyncagents.config.clock import SystemClock

MAX_ENDED = 5
"""Ended tasks shown below a session."""
WIDEST = 10_000
GAP = "  "
ID_COLUMN = 7
SHORT_ID = 16
DISPENSABLE = (5, 1, 4, 3)
"""Columns dropped on a narrow terminal, in order: cost, agent, tokens, tools."""


class TreeStyle(Struct, frozen=True):
    everything: bool = False
    """Include all ended tasks."""
    as_json: bool = False


class TreeRow(Struct, frozen=True):
    """A row; the first cell has the branches of the tree and is cut to fit. `faint`: it has ended."""

    cells: tuple[str, ...]
    faint: bool = False


class TreeLine(Struct, frozen=True):
    text: str
    faint: bool

    @property
    def styled_text(self) -> str:
        return click.style(self.text, dim=True) if self.faint else self.text


def print_json(nodes: Sequence[TaskNode]) -> None:
    click.echo(msgspec.json.encode([as_builtins(node) for node in nodes]))


def print_no_tasks(scope: TaskScope) -> None:
    where = f" of sessions of {scope.directory}; --all looks everywhere" if scope.directory else ""
    click.echo(f"no tasks{where}", err=True)


def print_forest(nodes: Sequence[TaskNode], style: TreeStyle) -> None:
    width = get_terminal_size().columns if sys.stdout.isatty() else WIDEST
    for line in draw_forest(nodes, style, width):
        click.echo(line.styled_text)


def draw_forest(nodes: Sequence[TaskNode], style: TreeStyle, width: int = WIDEST) -> list[TreeLine]:
    now = SystemClock().now()
    rows = [row for node in nodes for row in _rows(node, ("", ""), style, now)]
    if not rows:
        return []
    for column in (ID_COLUMN, *DISPENSABLE):
        if NARROWEST + sum(_widths(rows)[1:]) <= width:
            break
        rows = [_shorten_cell(row, column) for row in rows]
    widths = _widths(rows)
    room = max(NARROWEST, width - sum(widths[1:]))
    return [TreeLine(_join_cells(row, [min(widths[0], room), *widths[1:]]), row.faint) for row in rows]


def _widths(rows: Sequence[TreeRow]) -> list[int]:
    """Return the column widths, each but the first with its gap; an empty column has width 0."""
    longest = [max(len(row.cells[column]) for row in rows) for column in range(len(rows[0].cells))]
    return [longest[0], *(length + len(GAP) if length else 0 for length in longest[1:])]


def _shorten_cell(row: TreeRow, column: int) -> TreeRow:
    """Cut an id to `SHORT_ID` characters; empty any other cell."""
    cells = list(row.cells)
    cells[column] = cells[column][:SHORT_ID] if column == ID_COLUMN else ""
    return replace(row, cells=tuple(cells))


def _join_cells(row: TreeRow, widths: Sequence[int]) -> str:
    first = _cut(row.cells[0], widths[0]).ljust(widths[0])
    others = [
        f"{GAP}{cell}".ljust(width) for cell, width in zip(row.cells[1:], widths[1:], strict=True) if width
    ]
    return "".join((first, *others)).rstrip()


def _cut(cell: str, width: int) -> str:
    """Cut a cell, keeping its spaces: they indent the tree."""
    return cell if len(cell) <= width else f"{cell[: width - 1]}…"


def _rows(node: TaskNode, branch: tuple[str, str], style: TreeStyle, now: int) -> Iterator[TreeRow]:
    """Yield the rows of a node; `branch`: prefixes of its own line and of the lines below it."""
    own, further = branch
    yield TreeRow((f"{own}{node_name(node)}", *_cells(node, now)), node.has_ended and not node.at_work)
    shown = node.below if style.everything else _visible_nodes(node.below)
    hidden = len(node.below) - len(shown)
    if hidden:
        have = "has" if hidden == 1 else "have"
        yield TreeRow((f"{further}├─ … {hidden} more {have} ended", *[""] * 7), faint=True)
    for each in shown:
        last = each is shown[-1]
        branches = (f"{further}{'└─ ' if last else '├─ '}", f"{further}{'   ' if last else '│  '}")
        yield from _rows(each, branches, style, now)


def _visible_nodes(nodes: tuple[TaskNode, ...]) -> tuple[TaskNode, ...]:
    """Return all nodes at work, and the newest of the others."""
    over = [node for node in nodes if not node.at_work]
    hidden = {node.session.id for node in over[: max(0, len(over) - MAX_ENDED)]}
    return tuple(node for node in nodes if node.session.id not in hidden)


def node_name(node: TaskNode) -> str:
    task = node.task
    if task is None:
        return session_label(node.session)
    marks = " (sync)" if task.kind == "sync" else ""
    marks += " (forked)" if task.is_forked else ""
    marks += " (resumed)" if task.resume_count else ""
    return f"{one_line(task.description, 60)}{marks}"


def _cells(node: TaskNode, now: int) -> tuple[str, ...]:
    session, task = node.session, node.task
    spent = task.progress if task and task.progress else session
    return (
        one_line(session.agent or "", 20),
        state_text(node),
        tools_text(task) if task else "",
        f"{token_text(spent.tokens)} tokens",
        dollars(spent.cost),
        run_duration(task, now) if task else ago(session.time.updated, now),
        session.id,
    )


def state_text(node: TaskNode) -> str:
    """Return the state with a detail, such as the tool that runs."""
    task = node.task
    progress = task.progress if task else None
    match node.state:
        case "queued" if progress and progress.place:
            return f"queued, place {progress.place}"
        case "tool" if progress and progress.last_tools:
            return f"runs {one_line(progress.last_tools[-1], 30)}"
        case "waiting" if node.why and node.why.code in ("task", "tasks"):
            return f"waits for {count_text(len(node.why.on), 'task')}"
        case "cancelled" if task and task.ended_by:
            return f"cancelled by {task.ended_by}"
        case word:
            return word
