"""Loads SQLite's statements and migrations, and splits scripts into statements."""

import sqlite3
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from asyncagents.store.sql_file import migrations, read_statements, strip_comments

_HERE = files("asyncagents.store.sqlite")


@cache
def load_statements() -> dict[str, str]:
    return {name: strip_comments(text) for name, text in read_statements(_HERE.joinpath("sql"))}


@cache
def migration_files() -> tuple[Traversable, ...]:
    return migrations(_HERE.joinpath("migrations"))


def split_statements(script: str) -> list[str]:
    found: list[str] = []
    current = ""
    for line in strip_comments(script).splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    return [*found, current.strip()] if current.strip() else found
