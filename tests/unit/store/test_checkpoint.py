"""The log goes into the file beside the writer, and a failure of that harms nobody."""

import logging
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from asyncagents.store.sqlite.checkpoint import CHECKPOINT_VERBS, Checkpointer
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect

PATIENCE = 20.0


class Told:
    """A connection that says when it has moved the log."""

    def __init__(self, path: Path, moved: threading.Event) -> None:
        self._real = connect(path)
        self._moved = moved

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def execute(self, sql: str, params: tuple[object, ...] = (), /) -> SqliteCursor:
        done = self._real.execute(sql, params)
        self._moved.set()
        return done

    def close(self) -> None:
        self._real.close()


@contextmanager
def written(path: Path) -> Iterator[None]:
    """A row that is committed and lies in the log only."""
    with closing(connect(path)) as writer:
        writer.execute("CREATE TABLE t (x)")
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        writer.execute("INSERT INTO t VALUES (1)")
        yield


def in_the_file(path: Path) -> int:
    """How many rows are there without the log."""
    alone = Path(shutil.copy(path, path.with_name("alone.db")))
    with closing(sqlite3.connect(alone)) as db:
        return int(db.execute("SELECT COUNT(*) FROM t").fetchone()[0])


def test_a_checkpoint_runs_after_a_fixed_number_of_verbs(tmp_path: Path) -> None:
    path, moved = tmp_path / "a.db", threading.Event()
    with written(path), closing(Checkpointer(lambda: Told(path, moved))) as checkpoints:
        checkpoints.count_verbs(CHECKPOINT_VERBS - 1)
        assert in_the_file(path) == 0
        assert moved.is_set() is False
        checkpoints.count_verbs(1)
        assert moved.wait(PATIENCE)
        assert in_the_file(path) == 1


def test_a_failed_checkpoint_is_logged_and_the_next_one_is_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, moved, failed = tmp_path / "a.db", threading.Event(), threading.Event()

    def connect_later() -> Connection:
        if not failed.is_set():
            failed.set()
            raise sqlite3.OperationalError("unable to open database file")
        return Told(path, moved)

    with written(path), caplog.at_level(logging.WARNING), closing(Checkpointer(connect_later)) as checkpoints:
        checkpoints.count_verbs(CHECKPOINT_VERBS)
        assert failed.wait(PATIENCE)
        checkpoints.count_verbs(CHECKPOINT_VERBS)
        assert moved.wait(PATIENCE)
        assert in_the_file(path) == 1
    assert "action=checkpoint: failed" in caplog.text


def test_a_checkpointer_without_enough_verbs_starts_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with closing(Checkpointer(lambda: connect(tmp_path / "a.db"))) as checkpoints:
        checkpoints.count_verbs(CHECKPOINT_VERBS - 1)
        assert threading.active_count() == before
