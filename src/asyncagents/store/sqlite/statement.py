"""Loads SQLite's statements and migrations, and splits scripts into statements."""

import sqlite3
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from asyncagents.store.sql_file import bare, migrations, named

_HERE = files("asyncagents.store.sqlite")


@cache
def load_statements() -> dict[str, str]:
    return {name: bare(text) for name, text in named(_HERE.joinpath("sql"))}


@cache
def migration_files() -> tuple[Traversable, ...]:
    return migrations(_HERE.joinpath("migrations"))


def split(script: str) -> list[str]:
    found: list[str] = []
    current = ""
    for line in bare(script).splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    return [*found, current.strip()] if current.strip() else found
