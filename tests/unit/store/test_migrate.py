"""A database is brought to this program's schema: forward only, backed up first, refused when too new."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents.domain.id import Ids
from asyncagents.errors import SchemaMismatch, StoreError
from asyncagents.store.sqlite.connection import Connection, connect_with
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.migrate import load_scripts, migrate
from asyncagents.store.sqlite.statement import split_statements
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.store.fault import Faults
from tests.support.store.lab import PROJECT, Lab

SECOND = """-- min_reader: 1
-- A colour for everyone; what is older does not need to know.
ALTER TABLE session ADD COLUMN colour TEXT;
CREATE TABLE paint (id TEXT PRIMARY KEY);  -- with a remark
"""
THIRD = """-- min_reader: 3
CREATE TABLE brush (id TEXT PRIMARY KEY);
"""
BROKEN = """-- min_reader: 2
CREATE TABLE easel (id TEXT PRIMARY KEY);
CREATE TABLE session (id TEXT);
"""


def _connect(path: Path) -> Connection:
    return connect_with(path, synchronous="OFF")


def _migrate(path: Path, *more: str, first: int = 1) -> None:
    scripts = (*load_scripts()[:first], *more)
    with closing(_connect(path)) as connection:
        migrate(connection, path, epoch="e1", scripts=scripts)


def _one(path: Path, sql: str) -> tuple[Any, ...]:
    with closing(sqlite3.connect(path)) as connection:
        row: tuple[Any, ...] = connection.execute(sql).fetchone()
        return row


def _tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_a_fresh_file_gets_every_table_and_needs_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path)
    assert _one(path, "SELECT version, min_reader FROM schema") == (1, 1)
    assert _one(path, "SELECT rev, epoch, horizon FROM revision") == (0, "e1", 0)
    assert {"session", "message", "part", "input", "call", "request"} <= _tables(path)
    assert not (tmp_path / "backups").exists()


async def test_a_reopened_database_has_its_sessions_and_its_epoch(tmp_path: Path) -> None:
    path, clock = tmp_path / "deep" / "store.db", FakeClock()
    cursors = []
    for seed in (1, 2):
        rng = SeededRng(seed)
        async with open_sqlite(path, clock=clock, rng=rng, connect=Faults().connect) as database:
            lab = Lab(database, clock, Ids(clock, rng))
            cursors.append((await lab.store.cursor()).split("-")[0])
            await lab.prompt(await lab.session())
            assert len(await lab.store.sessions(PROJECT)) == seed
    assert cursors[0] == cursors[1]


def test_an_upgrade_keeps_the_rows_and_makes_a_backup_first(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path)
    with closing(_connect(path)) as connection:
        connection.execute("UPDATE revision SET rev = 41")
    _migrate(path, SECOND)
    assert _one(path, "SELECT version, min_reader FROM schema") == (2, 1)
    assert _one(path, "SELECT rev, epoch FROM revision") == (41, "e1")
    assert "paint" in _tables(path)
    (backup,) = (tmp_path / "backups").iterdir()
    assert backup.name == "store-schema-1.db"
    assert "paint" not in _tables(backup)
    assert _one(backup, "SELECT rev FROM revision") == (41,)
    _migrate(path, SECOND)
    assert [file.name for file in (tmp_path / "backups").iterdir()] == ["store-schema-1.db"]


def test_several_migrations_run_in_one_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path)
    _migrate(path, SECOND, THIRD)
    assert _one(path, "SELECT version, min_reader FROM schema") == (3, 3)


def test_a_later_migration_does_not_lower_the_oldest_allowed_reader(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, SECOND, THIRD, "-- min_reader: 1\nCREATE TABLE frame (id TEXT);")
    assert _one(path, "SELECT version, min_reader FROM schema") == (4, 3)
    with pytest.raises(SchemaMismatch):
        _migrate(path)


def test_a_newer_schema_that_old_programs_may_read_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, SECOND)
    _migrate(path)
    assert _one(path, "SELECT version FROM schema") == (2,)


async def test_a_schema_that_is_too_new_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    steps = [f"-- min_reader: 1\nCREATE TABLE frame_{n} (id TEXT);" for n in range(len(load_scripts()))]
    _migrate(path, *steps[1:], "CREATE TABLE nail (id TEXT);")
    before = path.read_bytes()
    with pytest.raises(SchemaMismatch, match=r"knows schema \d+; this one knows \d+\. Upgrade"):
        async with open_sqlite(path, clock=FakeClock(), rng=SeededRng(1), connect=Faults().connect):
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("polled", [False, True])
async def test_a_program_that_runs_writes_nothing_after_a_newer_one_changed_the_schema(
    tmp_path: Path, polled: bool
) -> None:
    """Its rows would lack what the newer one reads; who opens it afresh is refused as well."""
    path, clock, known = tmp_path / "store.db", FakeClock(), len(load_scripts())
    async with open_sqlite(path, clock=clock, rng=SeededRng(1), connect=Faults().connect) as database:
        lab = Lab(database, clock, Ids(clock, SeededRng(2)))
        await lab.session()
        _migrate(path, "-- min_reader: 1\nCREATE TABLE nail (id TEXT);", first=known)
        await lab.session()
        _migrate(path, "-- min_reader: 1\n;", "CREATE TABLE frame (id TEXT);", first=known)
        if polled:
            database.poll()
        for _ in range(2):
            with pytest.raises(SchemaMismatch, match="Upgrade"):
                await lab.session()
        assert len(await lab.store.sessions(PROJECT, limit=10)) == 2


def test_a_step_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path)
    with pytest.raises(sqlite3.Error):
        _migrate(path, BROKEN)
    assert "easel" not in _tables(path)
    assert _one(path, "SELECT version FROM schema") == (1,)
    _migrate(path, SECOND)
    assert _one(path, "SELECT version FROM schema") == (2,)


def test_a_process_that_comes_late_does_not_overwrite_the_backup(tmp_path: Path) -> None:
    """It saw the old schema, and another has upgraded it before it got the lock."""
    path = tmp_path / "store.db"
    _migrate(path)

    class Late:
        """Looks at an old schema, once; meanwhile another process upgrades."""

        def __init__(self, real: Connection) -> None:
            self._real = real
            self._late = True

        @property
        def in_transaction(self) -> bool:
            return self._real.in_transaction

        def close(self) -> None:
            self._real.close()

        def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> Any:
            if sql == "BEGIN IMMEDIATE" and self._late:
                self._late = False
                _migrate(path, SECOND)
            return self._real.execute(sql, params)

    with closing(Late(_connect(path))) as late:
        migrate(late, path, epoch="e2", scripts=(*load_scripts()[:1], SECOND))
    (backup,) = (tmp_path / "backups").iterdir()
    assert "paint" not in _tables(backup)


_OPEN = """
import asyncio, sys
from pathlib import Path
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.store import Store
from asyncagents.testing.clock import FakeClock, SeededRng
async def main():
    async with open_sqlite(Path(sys.argv[1]), clock=FakeClock(), rng=SeededRng(int(sys.argv[2]))) as database:
        print(await Store(database).cursor())
print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main())
"""


@pytest.mark.spec("X-11")
def test_processes_that_open_a_fresh_file_at_once_read_the_same(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN, str(path), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate() for process in processes]
    assert [stderr for _, stderr in answers] == [""] * 4
    assert len({stdout for stdout, _ in answers}) == 1


async def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("Dear diary, " * 1_000)
    with pytest.raises(StoreError, match=r"store\.db.*not a database"):
        async with open_sqlite(path, clock=FakeClock(), rng=SeededRng(1), connect=Faults().connect):
            pass


def test_a_script_is_cut_at_the_ends_of_its_statements() -> None:
    script = (
        "-- a; remark\nCREATE TABLE a (x TEXT DEFAULT ';');\n\nINSERT INTO a VALUES ('it''s;');\nSELECT 1"
    )
    assert split_statements(script) == [
        "CREATE TABLE a (x TEXT DEFAULT ';');",
        "INSERT INTO a VALUES ('it''s;');",
        "SELECT 1",
    ]


def test_an_upgrade_marks_open_async_calls_as_pending(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, first=5)
    waiting = b'{"id":"%s","state":{"type":"open","kind":"%s","since":1}}'
    rows = [("a", "open", waiting % (b"a", b"async"), 7), ("b", "open", waiting % (b"b", b"question"), None)]
    rows += [("c", "open", b"{broken", None), ("d", "settled", b'{"id":"d"}', None)]
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, state, body, due in rows:
            connection.execute(
                "INSERT INTO call (id, session_id, part_id, state, due, shown_pending, body, version, rev) "
                "VALUES (?, 's', 'p', ?, ?, 0, ?, 1, 1)",
                (name, state, due, body),
            )
    _migrate(path, first=6)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT id, body FROM call WHERE pending IS NOT NULL").fetchall()
    assert [row[0] for row in found] == ["a"]
    assert json.loads(found[0][1])["later"] == {"due": 7}


def test_an_upgrade_fills_the_search_columns_of_tasks(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, first=6)
    ended = {"status": "error", "agent": "explore", "description": "Viel ÄRGER", "created": 5, "ended": 9}
    running = {"agent": "general", "description": "LOOK", "created": 7}
    rows = [("a", 0, json.dumps(ended)), ("b", 1, json.dumps(running)), ("c", 0, "{broken")]
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, live, body in rows:
            connection.execute(
                "INSERT INTO task (id, parent_id, batch, live, crowd, due, body, version, rev) "
                "VALUES (?, 'p', 'b', ?, 20, NULL, ?, 1, 3)",
                (name, live, body.encode()),
            )
    _migrate(path, first=7)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT id, status, agent, folded, created, ended, born, done FROM task ORDER BY id"
        ).fetchall()
    assert found == [
        ("a", "error", "explore", "viel ärger", 5, 9, 1, 1),
        ("b", "running", "general", "look", 7, None, 1, 1),
        ("c", "", "", "", 0, None, 1, 1),
    ]


def test_an_upgrade_fills_the_list_columns_of_sessions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, first=8)
    old = {"directory": "/a", "title": "Viel ÄRGER", "time": {"created": 1, "updated": 5, "archived": 7}}
    new = {"directory": "/b", "title": "BEES", "time": {"created": 1, "updated": 9}}
    rows = [("a", json.dumps(old)), ("b", json.dumps(new)), ("c", "{broken")]
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, info in rows:
            connection.execute(
                "INSERT INTO session (id, root_id, depth, pool, state, wake_seq, fence, turn, turn_rev,"
                " in_turn, cancel_rev, blocked_turn, claims, positions, status, info, version, project_id,"
                " rev)"
                " VALUES (?, ?, 0, 'p', 'idle', 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', ?, 1, 'p', 1)",
                (name, name, info.encode()),
            )
    _migrate(path, first=9)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT id, directory, updated, folded, archived FROM session ORDER BY updated DESC"
        ).fetchall()
    assert found == [("b", "/b", 9, "bees", None), ("a", "/a", 5, "viel ärger", 7), ("c", "", 0, "", None)]


@pytest.mark.spec("D-10")
def test_an_upgrade_gives_sessions_of_cleared_tasks_the_crowd_of_their_tree(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    number = next(at for at, script in enumerate(load_scripts()) if "ADD COLUMN crowd" in script)
    _migrate(path, first=number)
    rows = [
        ("r", "r", 0),
        ("task", "r", 1),
        ("cleared", "r", 1),
        ("made", "r", 1),
        ("q", "q", 0),
        ("alone", "q", 1),
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, root, depth in rows:
            connection.execute(
                "INSERT INTO session (id, root_id, depth, pool, state, wake_seq, fence, turn, turn_rev,"
                " in_turn, cancel_rev, blocked_turn, claims, positions, status, info, version, project_id,"
                " rev)"
                " VALUES (?, ?, ?, 'p', 'idle', 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', 1, 'p', 1)",
                (name, root, depth),
            )
        connection.execute(
            "INSERT INTO task (id, parent_id, batch, live, crowd, due, body, version, rev) "
            "VALUES ('task', 'r', 'b', 1, 4, NULL, '{}', 1, 3)"
        )
        for rev, name in enumerate(("cleared", "alone")):
            connection.execute(
                "INSERT INTO tombstone (rev, kind, id, body) VALUES (?, 'task', ?, '{}')", (rev, name)
            )
    _migrate(path, first=number + 1)
    with closing(sqlite3.connect(path)) as connection:
        found = dict(connection.execute("SELECT id, crowd FROM session WHERE crowd IS NOT NULL").fetchall())
    assert found == {"cleared": 4, "alone": 20}


@pytest.mark.spec("Z-03", "X-11")
def test_an_upgrade_sets_the_kind_of_tasks_and_marks_those_without_session(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    _migrate(path, first=8)
    rows = [
        ("a", {"description": "ä"}),
        ("b", {"background": False}),
        ("c", {"background": True}),
        ("d", None),
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, body in rows:
            connection.execute(
                "INSERT INTO task (id, parent_id, batch, live, crowd, due, body, version, rev) "
                "VALUES (?, 'p', 'b', 0, 20, NULL, ?, 1, 3)",
                (name, b"{broken" if body is None else msgspec.json.encode(body)),
            )
        connection.execute(
            "INSERT INTO session (id, root_id, depth, pool, state, wake_seq, fence, turn, turn_rev, in_turn,"
            " cancel_rev, blocked_turn, claims, positions, status, info, version, project_id, rev)"
            " VALUES ('b', 'b', 0, 'p', 'idle', 0, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', 1, 'p', 1)"
        )
    _migrate(path, first=len(load_scripts()))
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT id, kind, body FROM task ORDER BY id").fetchall()
    assert [(name, kind) for name, kind, _ in found] == [
        ("a", "background"), ("b", "sync"), ("c", "background"), ("d", "background")
    ]  # fmt: skip
    assert json.loads(found[0][2]) == {"description": "ä", "gone": True}
    assert json.loads(found[1][2]) == {"background": False}
    assert found[3][2] == b"{broken"
