"""SQLite on a simulated disk whose power can fail at any write: a VFS for the optional apsw."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from asyncagents.testing.clock import SeededRng
from asyncagents.testing.disk import DiskTruncate, DiskWrite, Inode, SimulatedDisk

_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
_KEPT_IN_MEMORY = apsw.SQLITE_OPEN_MAIN_DB | _JOURNALS


class PowerLost(apsw.IOError):
    """The simulated power is off; `survivors()` shows whether the last commit survived."""


class _Cursor(apsw.Cursor):
    """A cursor that ignores errors when dropped: ending its statement may fail on a dead disk."""

    @property
    def rowcount(self) -> int:
        return self.connection.changes()

    def __del__(self) -> None:
        with suppress(apsw.Error):
            self.close()


class PowerCut:
    """A directory of databases on its own `SimulatedDisk`.

    Bytes live in memory; every un-synced write is kept (40 %), lost (50 %) or torn at 512-byte sectors
    (10 %), independently of its neighbours; un-synced truncates are kept or lost; un-synced creates and
    deletes of files are undone or not, name by name. As in SQLite's own unix VFS, the first sync of a
    journal or WAL also syncs the directory, and syncing a database does not.

    Locks and the shared memory of WAL mode pass through to empty files in `directory/live`: apsw's
    inherited file provides both, so WAL works with several connections and without
    `locking_mode=EXCLUSIVE`. The wal-index is never among the survivors, as after a reboot. Temporary
    files are left to the operating system.

    Not modelled: bytes that rot or change beside a write (SQLite's "powersafe overwrite" is taken as
    true), a disk that lies about fsync, stale data in a file's new tail (it is zeros), and memory-mapped
    I/O (refused, so that every read and write is seen).
    """

    def __init__(self, directory: Path, seed: int, cut_after: int | None = None) -> None:
        """Take the files in `directory` as durable; `cut_after=k` cuts at the k-th write, truncate, sync or
        delete, which may or may not be done."""
        self.operations = 0
        self._directory = directory
        self._rng = SeededRng(seed)
        self._cut_after = cut_after
        self._connections: list[apsw.Connection] = []
        self._found: dict[str, bytes] | None = None
        files = {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
        self.disk = SimulatedDisk({name: data for name, data in files.items() if not name.endswith("-shm")})
        self._live = directory / "live"
        self._live.mkdir()
        self._vfs = _Vfs(f"powercut-{id(self):x}", self, self._live)

    @property
    def dead(self) -> bool:
        return self._found is not None

    def connect(self, name: str) -> apsw.Connection:
        self.check_alive()
        connection = apsw.Connection(str(self._live / name), vfs=self._vfs.name)
        connection.exec_trace = self._still_alive
        connection.cursor_factory = _Cursor
        self._connections.append(connection)
        return connection

    def cut(self) -> None:
        """Turn the power off; every later use of a connection raises `PowerLost`. Idempotent."""
        if self._found is None:
            self._found = self.disk.after_cut(self._rng)

    def survivors(self) -> Path:
        """Return a directory with the files that survived the cut; closes the dead connections."""
        if self._found is None:
            raise ValueError("the power is still on: call cut() first")
        target = self._directory / "survivors"
        if not target.exists():
            self._close()
            target.mkdir()
            for name, data in self._found.items():
                (target / name).write_bytes(data)
        return target

    def operate(self, perform: Callable[[], None]) -> None:
        """Perform and count one operation; the one at which the power fails may or may not be done."""
        self.check_alive()
        self.operations += 1
        if self.operations != self._cut_after:
            perform()
            return
        if self._rng.below(2):
            perform()
        self.cut()
        self.check_alive()

    def check_alive(self) -> None:
        if self.dead:
            raise PowerLost("the power is off")

    def _still_alive(self, *_: object) -> bool:
        self.check_alive()
        return True

    def _close(self) -> None:
        for connection in self._connections:
            with suppress(apsw.Error):
                connection.close(True)
        self._connections.clear()
        self._vfs.unregister()


def _ignore_power_loss(hook: Callable[..., bool], kind: type[BaseException] | None, *error: Any) -> bool:
    """Suppress `PowerLost` while SQLite cleans up; call `hook` for other errors."""
    return True if kind is not None and issubclass(kind, PowerLost) else hook(kind, *error)


class _Vfs(apsw.VFS):
    def __init__(self, name: str, power: PowerCut, live: Path) -> None:
        self.name = name
        self._power, self._live = power, str(live)
        super().__init__(name, "")

    def excepthook(self, *error: Any) -> bool:
        return _ignore_power_loss(super().excepthook, *error)

    def _own_name(self, path: str) -> str | None:
        folder, name = os.path.split(path)
        return name if folder == self._live and not name.endswith("-shm") else None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        self._power.check_alive()
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        ours = self._own_name(path) if path and flags[0] & _KEPT_IN_MEMORY else None
        if ours is None:
            return apsw.VFSFile("", name, flags)
        inode = self._power.disk.find(ours)
        if inode is None and not flags[0] & apsw.SQLITE_OPEN_CREATE:
            raise apsw.CantOpenError(f"no file {ours}")
        Path(self._live, ours).touch()  # carries the locks
        syncs_names = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        inode = inode or self._power.disk.create(ours)
        return _File(self._power, inode, name, flags, syncs_names=syncs_names)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        ours = self._own_name(filename)
        if ours is None:
            super().xDelete(filename, syncdir)
            return
        if self._power.disk.find(ours) is None:
            raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT)
        self._power.operate(lambda: self._delete(ours, syncdir))

    def _delete(self, name: str, syncdir: bool) -> None:
        self._power.disk.delete(name)
        Path(self._live, name).unlink(missing_ok=True)
        if syncdir:
            self._power.disk.sync_names()

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        ours = self._own_name(pathname)
        return super().xAccess(pathname, flags) if ours is None else self._power.disk.find(ours) is not None


class _File(apsw.VFSFile):
    """Reads and writes go to the disk model, locks and shared memory to the empty file below."""

    def __init__(
        self,
        power: PowerCut,
        inode: Inode,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        *,
        syncs_names: bool,
    ) -> None:
        self._power, self._inode, self._syncs_names = power, inode, syncs_names
        super().__init__("", name, flags)

    def excepthook(self, *error: Any) -> bool:
        return _ignore_power_loss(super().excepthook, *error)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._power.check_alive()
        return bytes(self._inode.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        write = DiskWrite(offset, bytes(data))
        self._power.operate(lambda: self._inode.change(write))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._power.operate(lambda: self._inode.change(DiskTruncate(newsize)))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._power.operate(self._sync)

    def _sync(self) -> None:
        self._inode.sync()
        if self._syncs_names:
            self._power.disk.sync_names()
            self._syncs_names = False

    def xFileSize(self) -> int:  # noqa: N802
        self._power.check_alive()
        return len(self._inode.content)

    def xLock(self, level: int) -> None:  # noqa: N802
        self._power.check_alive()
        super().xLock(level)

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        if op in {apsw.SQLITE_FCNTL_MMAP_SIZE, apsw.SQLITE_FCNTL_SIZE_HINT}:
            return False
        return super().xFileControl(op, ptr)
