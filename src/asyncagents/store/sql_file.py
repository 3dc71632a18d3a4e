"""Reads the SQL files of a database: named statements, and migrations in order."""

from collections.abc import Iterator
from importlib.resources.abc import Traversable


def read_statements(folder: Traversable) -> Iterator[tuple[str, str]]:
    """Yield each named statement of a folder, with comments. Raises `ValueError` for a repeated name."""
    seen: set[str] = set()
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        for block in file.read_text().split("-- name: ")[1:]:
            name, _, text = block.partition("\n")
            if name.strip() in seen:
                raise ValueError(f"statement {name.strip()!r} is defined twice, again in {file.name}")
            seen.add(name.strip())
            yield name.strip(), text


def strip_comments(text: str) -> str:
    """Remove comment lines, blank lines and the closing semicolon."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(line for line in lines if line.strip()).rstrip(";")


def migrations(folder: Traversable) -> tuple[Traversable, ...]:
    return tuple(sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name))
