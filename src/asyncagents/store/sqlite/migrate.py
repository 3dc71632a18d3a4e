"""Migrates a database to this program's schema: forward only, backed up first, refused when too new."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from asyncagents.errors import SchemaMismatch
from asyncagents.store.sqlite.connection import Connection
from asyncagents.store.sqlite.statement import migration_files, split_statements
from asyncagents.store.verb.task import fold_case


def load_scripts() -> tuple[str, ...]:
    return tuple(file.read_text() for file in migration_files())


def migrate(connection: Connection, path: Path, *, epoch: str, scripts: tuple[str, ...]) -> None:
    """Run the missing migrations; safe when several processes start at once: the write lock orders them."""
    if schema_version(connection) < len(scripts):
        connection.execute("BEGIN IMMEDIATE")
        try:
            _upgrade(connection, path, scripts)
            connection.execute("INSERT OR IGNORE INTO revision VALUES (1, 0, ?, 0)", (epoch,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    refuse_newer(connection, len(scripts))


def schema_version(connection: Connection) -> int:
    """Read the schema version of a database; 0: it has none yet."""
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema'").fetchone()
    row = connection.execute("SELECT version FROM schema").fetchone() if known else None
    return int(row[0]) if row else 0


def refuse_newer(connection: Connection, ours: int) -> None:
    """Raise `SchemaMismatch` if the database needs a newer program."""
    version, min_reader = connection.execute("SELECT version, min_reader FROM schema").fetchone()
    if min_reader > ours:
        raise SchemaMismatch(
            f"the database has schema {version} and needs a program that knows schema {min_reader}; "
            f"this one knows {ours}. Upgrade asyncagents."
        )


def _upgrade(connection: Connection, path: Path, scripts: tuple[str, ...]) -> None:
    """Run the missing migrations under the write lock; another process may have run them by now."""
    done = schema_version(connection)
    if 0 < done < len(scripts):
        _back_up(path, done)
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema (id INTEGER PRIMARY KEY CHECK (id = 1), "
        "version INTEGER NOT NULL, min_reader INTEGER NOT NULL)"
    )
    for number, script in enumerate(scripts[done:], start=done + 1):
        for statement in split_statements(script):
            connection.execute(statement)
        if "\n-- then: fold\n" in script:
            _fold_descriptions(connection)
        if "\n-- then: fold titles\n" in script:
            _fold_titles(connection)
        connection.execute(
            "INSERT INTO schema (id, version, min_reader) VALUES (1, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET version = excluded.version, "
            "min_reader = MAX(min_reader, excluded.min_reader)",
            (number, _min_reader(script, number)),
        )


def _fold_descriptions(connection: Connection) -> None:
    """Fold the case of task descriptions beyond ASCII, which SQL alone cannot do."""
    found = connection.execute(
        "SELECT id, CAST(body AS TEXT) ->> 'description' FROM task WHERE folded GLOB '*[^ -~]*'"
    )
    for task_id, description in found.fetchall():
        connection.execute("UPDATE task SET folded = ? WHERE id = ?", (fold_case(description), task_id))


def _fold_titles(connection: Connection) -> None:
    found = connection.execute(
        "SELECT id, CAST(info AS TEXT) ->> 'title' FROM session WHERE folded GLOB '*[^ -~]*'"
    )
    for session_id, title in found.fetchall():
        connection.execute("UPDATE session SET folded = ? WHERE id = ?", (fold_case(title[:500]), session_id))


def _min_reader(script: str, number: int) -> int:
    found = re.search(r"^-- min_reader: (\d+)", script, re.MULTILINE)
    return int(found[1]) if found else number


def _back_up(path: Path, version: int) -> None:
    """Back up what is committed before the schema changes."""
    target = path.parent / "backups" / f"{path.stem}-schema-{version}.db"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
