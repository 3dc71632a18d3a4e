"""The SQL files: named statements, and scripts cut into statements."""

import sqlite3
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_HERE = files("asyncagents.store.sqlite")


@cache
def load_statements() -> dict[str, str]:
    statements: dict[str, str] = {}
    for file in sorted(_HERE.joinpath("sql").iterdir(), key=lambda f: f.name):
        for block in file.read_text().split("-- name: ")[1:]:
            name, _, text = block.partition("\n")
            if name.strip() in statements:
                raise ValueError(f"statement {name.strip()!r} stands twice, the second time in {file.name}")
            statements[name.strip()] = _bare(text)
    return statements


def _bare(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return "\n".join(line for line in lines if line.strip()).rstrip(";")


@cache
def migration_files() -> tuple[Traversable, ...]:
    return tuple(
        sorted(
            (f for f in _HERE.joinpath("migrations").iterdir() if f.name.endswith(".sql")),
            key=lambda f: f.name,
        )
    )


def split(script: str) -> list[str]:
    found: list[str] = []
    current = ""
    for line in _bare(script).splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    return [*found, current.strip()] if current.strip() else found
