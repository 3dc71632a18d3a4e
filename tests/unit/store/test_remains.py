"""A database that was used before and holds nothing any more is not taken for a new one."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.errors import StoreError
from asyncagents.store.sqlite.database import open_sqlite

FILE = "asyncagents.db"


async def _open(data: Path) -> int:
    """Open the database and close it; return how many rows a table of ours has."""
    async with open_sqlite(data / FILE, clock=SystemClock(), rng=SystemRng()):
        with closing(sqlite3.connect(data / FILE)) as other:
            (count,) = other.execute("SELECT count(*) FROM revision").fetchone()
            return int(count)


async def _used(data: Path) -> None:
    """A directory as a server leaves it that was killed: what it wrote is in the log."""
    live = data.parent / "live"
    async with open_sqlite(live / FILE, clock=SystemClock(), rng=SystemRng()):
        with closing(sqlite3.connect(live / FILE)) as other, other:
            other.execute("CREATE TABLE said (text TEXT)")
        shutil.copytree(live, data)
    (data / "token").write_text("secret")
    assert (data / f"{FILE}-wal").stat().st_size


def _empty(data: Path) -> None:
    (data / FILE).write_bytes(b"")


def _empty_alone(data: Path) -> None:
    _empty(data)
    (data / f"{FILE}-wal").unlink()


def _garbage(data: Path) -> None:
    (data / f"{FILE}-wal").write_bytes(bytes(range(1, 256)) * 100)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_empty, "is empty, and its directory was used before.*Restore a backup; or delete this file"),
        (_empty_alone, "is empty, and its directory was used before"),
        (_garbage, "asyncagents.db-wal is damaged.*Restore a backup.*or move this file away"),
    ],
)
async def test_remains_of_a_used_database_are_refused_and_not_changed(
    tmp_path: Path, damage: Callable[[Path], None], told: str
) -> None:
    data = tmp_path / "data"
    await _used(data)
    damage(data)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreError, match=told):
            await _open(data)
    assert {path.name: path.read_bytes() for path in data.iterdir()} == before


async def test_a_used_database_without_tables_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as other:
        other.execute("PRAGMA user_version = 7")
    (tmp_path / "token").write_text("secret")
    with pytest.raises(StoreError, match="is empty, and its directory was used before"):
        await _open(tmp_path)


async def test_a_database_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await _used(data)
    for path in data.glob(f"{FILE}*"):
        path.unlink()
    assert await _open(data) == 1


async def test_empty_files_of_a_crash_at_the_first_start_do_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    (tmp_path / f"{FILE}-wal").write_bytes(b"")
    assert await _open(tmp_path) == 1
