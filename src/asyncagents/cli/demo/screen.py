"""Output of the demo: headings, speakers, streamed text, and checked claims."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from textwrap import wrap

import click
from rich.console import Console
from rich.text import Text

from asyncagents.cli.inspect.task_table import Style, drawn
from asyncagents.cli.inspect.task_tree import Node
from asyncagents.cli.inspect.task_watch import drawing

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


class DoesNotHold(click.ClickException):
    """A claim of the demo does not hold; the exit code is 1."""

    def __init__(self, claim: str, seen: object) -> None:
        super().__init__(f"this does not hold: {claim}\nSeen instead: {seen}")


class Screen:
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
        self._labelled(f"  {speaker}".ljust(INDENT), text, STYLES.get(speaker, ""))

    def word(self, speaker: str, text: str, *, first: bool) -> None:
        """Append a word to the current line."""
        style = STYLES.get(speaker, "")
        if first:
            self._console.print(Text(f"  {speaker}".ljust(INDENT), style=style), end="")
        self._console.print(text, end="", style=style)

    def end(self) -> None:
        self._console.print()

    @contextmanager
    def tree(self, worth: Callable[[Node], bool] = lambda node: False) -> Iterator[Callable[[Node], None]]:
        """Redraw a tree as it changes; without a terminal print it once it is `worth` it, and at the end."""
        if self._console.is_terminal:
            with drawing(self._console, Style()) as see:
                yield lambda node: see([node])
            return
        last: list[Node] = []
        shown = False

        def look(node: Node) -> None:
            nonlocal shown
            last[:] = [node]
            if not shown and worth(node):
                shown = True
                self._print_tree(node)

        yield look
        for node in last:
            self._print_tree(node)

    def _print_tree(self, node: Node) -> None:
        for line in drawn([node], Style(), self._console.width):
            self._console.print(line.text)

    def check(self, claim: str, *, holds: bool, seen: object) -> None:
        """Print a claim that holds; raise for one that does not."""
        if not holds:
            raise DoesNotHold(claim, seen)
        self.checks += 1
        self._labelled("  ok  ", claim, "green")

    def _labelled(self, label: str, text: str, style: str) -> None:
        """Print a text with a label, wrapped and indented below itself."""
        rows = wrap(text, max(20, self._console.width - len(label))) or [""]
        self._console.print(Text(label + f"\n{' ' * len(label)}".join(rows), style=style))
