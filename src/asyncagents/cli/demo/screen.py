"""Output of the demo: headings, speakers, streamed text, and checked claims."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from asyncagents.cli.inspect.task_table import TreeStyle, draw_forest
from asyncagents.cli.inspect.task_tree import TaskNode
from asyncagents.cli.inspect.task_watch import open_live_tree

WIDTH = 96
INDENT = 15
STYLES = {
    "you": "bold",
    "tool": "yellow",
    "agent": "cyan",
    "manager": "magenta",
    "worker": "magenta",
    "kill -9": "bold red",
}


class ClaimFailed(click.ClickException):
    """A claim of the demo does not hold; the exit code is 1."""

    def __init__(self, claim: str, seen: object) -> None:
        super().__init__(f"this does not hold: {claim}\nSeen instead: {seen}")


class DemoScreen:
    """Colours and width follow the terminal, `NO_COLOR` and pipes; texts are plain ASCII."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._console.width = min(self._console.width, WIDTH)
        self.heading = ""
        self.checks = 0

    def head(self, title: str, text: str) -> None:
        self.heading = title
        self._console.print()
        self._console.rule(Text(title, style="bold"), align="left")
        self.explain(text)

    def explain(self, text: str) -> None:
        self._console.print("\n".join(wrap(text, self._console.width)))

    def line(self, speaker: str, text: str) -> None:
        self._print_labelled(f"  {speaker}".ljust(INDENT), text, STYLES.get(speaker, ""))

    def word(self, speaker: str, text: str, *, first: bool) -> None:
        """Append a word to the current line."""
        style = STYLES.get(speaker, "")
        if first:
            self._console.print(Text(f"  {speaker}".ljust(INDENT), style=style), end="")
        self._console.print(text, end="", style=style)

    def end(self) -> None:
        self._console.print()

    @contextmanager
    def live_tree(
        self, worth: Callable[[TaskNode], bool] = lambda node: False
    ) -> Iterator[Callable[[TaskNode], None]]:
        """Redraw a tree as it changes; without a terminal print it once it is `worth` it, and at the end."""
        if self._console.is_terminal:
            with open_live_tree(self._console, TreeStyle()) as see:
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
        for line in draw_forest([node], TreeStyle(), self._console.width):
            self._console.print(line.text)

    def check(self, claim: str, *, holds: bool, seen: object) -> None:
        """Print a claim that holds; raise for one that does not."""
        if not holds:
            raise ClaimFailed(claim, seen)
        self.checks += 1
        self._print_labelled("  ok  ", claim, "green")

    def _print_labelled(self, label: str, text: str, style: str) -> None:
        """Print a text with a label, wrapped and indented below itself."""
        rows = wrap(text, max(20, self._console.width - len(label))) or [""]
        self._console.print(Text(label + f"\n{' ' * len(label)}".join(rows), style=style))
