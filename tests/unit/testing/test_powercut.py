"""Power cuts: the model keeps what was synced, bites where it was not, and SQLite at FULL survives it."""

import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from asyncagents.testing.clock import SeededRng
from asyncagents.testing.disk import SECTOR, DiskTruncate, DiskWrite, Inode, SimulatedDisk
from asyncagents.testing.power_cut import PowerCut, PowerLost

pytestmark = pytest.mark.slow


@dataclass
class Run:
    """What one process wrote before its power went, and what the next one finds."""

    created: bool = False
    acked: list[int] = field(default_factory=list)
    found: list[int] | None = None
    intact: bool = False

    @property
    def outcome(self) -> str:
        if not self.intact:
            return "corrupt"
        found = self.found or []
        lost = found[: len(self.acked)] != self.acked or (self.created and self.found is None)
        return "lost" if lost else "kept"


def write_until_cut(power: PowerCut, run: Run, rng: SeededRng, pragmas: list[str]) -> None:
    connection = power.connect("a.db")
    for pragma in ["wal_autocheckpoint=8", *pragmas]:
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v TEXT)")
    run.created = True
    start = len(connection.execute("SELECT k FROM t").fetchall())
    for k in range(start, start + 40):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (?, ?)", (k, "x" * rng.below(3_000)))
        connection.execute("UPDATE t SET v = ? WHERE k = ?", ("y" * rng.below(6_000), rng.below(k + 1)))
        connection.execute("COMMIT")
        run.acked.append(k)


def read_back(directory: Path, run: Run) -> None:
    with closing(sqlite3.connect(directory / "a.db")) as connection, suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA synchronous=OFF")
        intact = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").fetchall():
            run.found = [k for (k,) in connection.execute("SELECT k FROM t ORDER BY k")]
        run.intact = intact


def cut_once(directory: Path, seed: int, *pragmas: str, operations: int = 250) -> Run:
    directory.mkdir()
    rng = SeededRng(seed)
    power = PowerCut(directory, seed, cut_after=1 + rng.below(operations))
    run = Run()
    with suppress(PowerLost):
        write_until_cut(power, run, rng, list(pragmas))
    power.cut()
    read_back(power.survivors(), run)
    return run


def outcomes(tmp_path: Path, cuts: int, *pragmas: str) -> Counter[str]:
    return Counter(cut_once(tmp_path / str(seed), seed, *pragmas).outcome for seed in range(cuts))


def test_no_acknowledged_commit_is_lost_in_wal_mode_at_full(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 400, "journal_mode=WAL", "synchronous=FULL") == {"kept": 400}


def test_wal_mode_at_normal_loses_commits_but_stays_intact(tmp_path: Path) -> None:
    seen = outcomes(tmp_path, 100, "journal_mode=WAL", "synchronous=NORMAL")
    assert seen["lost"] > 20
    assert seen["corrupt"] == 0


def test_without_syncs_the_model_loses_and_corrupts(tmp_path: Path) -> None:
    seen = outcomes(tmp_path, 100, "journal_mode=WAL", "synchronous=OFF")
    assert seen["lost"] > 20
    assert seen["corrupt"] > 10


def test_a_rollback_journal_is_safe_only_if_its_deletion_is_synced(tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "full").mkdir()
    assert outcomes(tmp_path / "extra", 100, "journal_mode=DELETE", "synchronous=EXTRA") == {"kept": 100}
    at_full = outcomes(tmp_path / "full", 100, "journal_mode=DELETE", "synchronous=FULL")
    assert at_full["lost"] > 0
    assert at_full["corrupt"] == 0


def test_a_second_cut_during_recovery_loses_nothing(tmp_path: Path) -> None:
    for seed in range(60):
        directory, rng = tmp_path / str(seed), SeededRng(seed)
        directory.mkdir()
        run = Run()
        for life in range(3):
            power = PowerCut(directory, seed + life, cut_after=1 + rng.below(60))
            with pytest.raises(PowerLost):
                write_until_cut(power, run, rng, ["journal_mode=WAL", "synchronous=FULL"])
            directory = power.survivors()
        read_back(directory, run)
        assert run.intact
        assert set(run.acked) <= set(run.found or [])


def test_the_same_seed_cuts_the_same_way(tmp_path: Path) -> None:
    for seed in range(20):
        first = cut_once(tmp_path / f"{seed}-a", seed, "journal_mode=WAL", "synchronous=OFF")
        again = cut_once(tmp_path / f"{seed}-b", seed, "journal_mode=WAL", "synchronous=OFF")
        assert first == again


def test_after_the_cut_every_use_raises(tmp_path: Path) -> None:
    power = PowerCut(tmp_path, 1)
    connection = power.connect("a.db")
    connection.execute("CREATE TABLE t (k)")
    connection.execute("BEGIN IMMEDIATE")
    assert connection.in_transaction
    power.cut()
    for statement in ("SELECT 1", "SELECT * FROM t", "INSERT INTO t VALUES (1)", "COMMIT", "ROLLBACK"):
        with pytest.raises(PowerLost, match="the power is off"):
            connection.execute(statement)
    with pytest.raises(PowerLost):
        power.connect("a.db")
    power.survivors()


def test_survivors_without_a_cut_raise_an_error(tmp_path: Path) -> None:
    power = PowerCut(tmp_path, 1)
    with pytest.raises(ValueError, match=r"call cut\(\) first"):
        power.survivors()


def test_readers_and_a_writer_share_a_database_in_wal_mode(tmp_path: Path) -> None:
    power = PowerCut(tmp_path, 1)
    writer = power.connect("a.db")
    assert writer.execute("PRAGMA journal_mode=WAL").fetchall() == [("wal",)]
    writer.execute("CREATE TABLE t (k)")
    reader = power.connect("a.db")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t VALUES (1)")
    assert reader.execute("SELECT k FROM t").fetchall() == []
    writer.execute("COMMIT")
    assert reader.execute("SELECT k FROM t").fetchall() == [(1,)]
    power.cut()
    assert not list(power.survivors().glob("*-shm"))


def test_a_clean_close_survives_a_cut(tmp_path: Path) -> None:
    for seed in range(20):
        (directory := tmp_path / str(seed)).mkdir()
        power = PowerCut(directory, seed)
        connection = power.connect("a.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (k)")
        connection.execute("INSERT INTO t VALUES (0)")
        connection.close()
        power.cut()
        read_back(power.survivors(), run := Run())
        assert run.found == [0]


def test_a_cut_never_changes_synced_bytes() -> None:
    for seed in range(50):
        inode = Inode()
        inode.change(DiskWrite(0, b"a" * 4 * SECTOR))
        inode.sync()
        inode.change(DiskWrite(SECTOR, b"b" * SECTOR))
        after = inode.after_cut(SeededRng(seed))
        assert after[:SECTOR] == b"a" * SECTOR
        assert after[2 * SECTOR :] == b"a" * 2 * SECTOR


def test_unsynced_writes_are_kept_lost_or_torn_at_sectors() -> None:
    fates: Counter[bytes] = Counter()
    for seed in range(1_000):
        inode = Inode(bytearray(3 * SECTOR), bytearray(3 * SECTOR))
        inode.change(DiskWrite(SECTOR // 2, b"b" * 2 * SECTOR))
        after = inode.after_cut(SeededRng(seed))
        fates[bytes(after[offset] for offset in (SECTOR // 2, SECTOR, 2 * SECTOR))] += 1
    assert len(fates) == 8
    assert 450 < fates[b"\0\0\0"] < 600
    assert 340 < fates[b"bbb"] < 480


def test_an_unsynced_truncate_may_be_lost() -> None:
    sizes = set()
    for seed in range(20):
        inode = Inode(bytearray(b"abc"), bytearray(b"abc"))
        inode.change(DiskTruncate(1))
        assert bytes(inode.content) == b"a"
        sizes.add(len(inode.after_cut(SeededRng(seed))))
    assert sizes == {1, 3}


def test_unsynced_creates_and_deletes_may_be_undone() -> None:
    seen = set()
    for seed in range(50):
        disk = SimulatedDisk({"old": b"o"})
        disk.create("new").sync()
        disk.delete("old")
        seen.add(tuple(disk.after_cut(SeededRng(seed))))
    assert seen == {(), ("new",), ("old",), ("new", "old")}


def test_a_synced_directory_keeps_its_names() -> None:
    disk = SimulatedDisk({"old": b"o"})
    disk.create("new").sync()
    disk.delete("old")
    disk.sync_names()
    assert all(list(disk.after_cut(SeededRng(seed))) == ["new"] for seed in range(20))
