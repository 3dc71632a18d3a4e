"""Output of the demo: headings, speakers, streamed text, and checked claims."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from shutil import get_terminal_size
from textwrap import wrap

import click

from asyncagents.cli.inspect.draw_task_tree import TreeStyle, draw_forest
from asyncagents.cli.inspect.read_task_tree import TaskNode
from asyncagents.cli.inspect.task_watch import open_live_tree
from asyncagents.cli.terminal.live import can_redraw
from asyncagents.cli.terminal.screen import may_style

WIDTH = 96
INDENT = 15
STYLES = {
    "you": partial(click.style, bold=True),
    "tool": partial(click.style, fg="yellow"),
    "agent": partial(click.style, fg="cyan"),
    "manager": partial(click.style, fg="magenta"),
    "worker": partial(click.style, fg="magenta"),
    "kill -9": partial(click.style, fg="red", bold=True),
    "title": partial(click.style, bold=True),
    "rule": partial(click.style, fg="bright_green"),
    "ok": partial(click.style, fg="green"),
}


class ClaimFailed(click.ClickException):
    """A claim of the demo does not hold; the exit code is 1."""

    def __init__(self, claim: str, seen: object) -> None:
        super().__init__(f"this does not hold: {claim}\nSeen instead: {seen}")


class DemoScreen:
    """Colours and width follow the terminal, `NO_COLOR` and pipes; texts are plain ASCII."""

    def __init__(self) -> None:
        self._width = min(get_terminal_size().columns, WIDTH)
        self._styles = STYLES if may_style() else {}
        self.heading = ""
        self.checks = 0

    def head(self, title: str, text: str) -> None:
        self.heading = title
        rule = " " + "─" * (self._width - len(title) - 1)
        click.echo(f"\n{self._style('title', title)}{self._style('rule', rule)}")
        self.explain(text)

    def explain(self, text: str) -> None:
        click.echo("\n".join(wrap(text, self._width)))

    def line(self, speaker: str, text: str) -> None:
        self._print_labelled(f"  {speaker}".ljust(INDENT), text, speaker)

    def word(self, speaker: str, text: str, *, first: bool) -> None:
        """Append a word to the current line."""
        label = f"  {speaker}".ljust(INDENT) if first else ""
        click.echo(self._style(speaker, label + text), nl=False)

    def end(self) -> None:
        click.echo()

    @contextmanager
    def live_tree(
        self, worth: Callable[[TaskNode], bool] = lambda node: False
    ) -> Iterator[Callable[[TaskNode], None]]:
        """Redraw a tree as it changes; without a terminal print it once it is `worth` it, and at the end."""
        if can_redraw():
            with open_live_tree(TreeStyle(), self._width) as see:
                yield lambda node: see([node])
            return
        last: list[TaskNode] = []
        shown = False

        def look(node: TaskNode) -> None:
            nonlocal shown
            last[:] = [node]
            if not shown and worth(node):
                shown = True
                self._print_tree(node)

        yield look
        for node in last:
            self._print_tree(node)

    def _print_tree(self, node: TaskNode) -> None:
        for line in draw_forest([node], TreeStyle(), self._width):
            click.echo(line.text)

    def check(self, claim: str, *, holds: bool, seen: object) -> None:
        """Print a claim that holds; raise for one that does not."""
        if not holds:
            raise ClaimFailed(claim, seen)
        self.checks += 1
        self._print_labelled("  ok  ", claim, "ok")

    def _print_labelled(self, label: str, text: str, style: str) -> None:
        """Print a text with a label, wrapped and indented below itself."""
        rows = wrap(text, max(20, self._width - len(label))) or [""]
        click.echo(self._style(style, label + f"\n{' ' * len(label)}".join(rows)))

    def _style(self, style: str, text: str) -> str:
        return self._styles.get(style, str)(text)
