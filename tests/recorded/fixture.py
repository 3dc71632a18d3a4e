"""Recordings as files: how they are written, and how tests get a copy of their own."""

import asyncio
import io
import json
import lzma
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from asyncagents.domain.id import SessionId

FOLDER = Path(__file__).parent.parent / "fixtures" / "recorded"
SQLITE, POSTGRES, INVENTORY = "sqlite.tar.xz", "postgres.sql.xz", "inventory.json"
VERSIONS = tuple(sorted(each.name for each in FOLDER.iterdir() if each.is_dir())) if FOLDER.exists() else ()


class Recording(Struct, frozen=True):
    """A recording of one version."""

    version: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.version

    @property
    def inventory(self) -> dict[str, Any]:
        return _inventory(self.folder / INVENTORY)

    @property
    def now(self) -> int:
        """When it was recorded, in ms since the epoch."""
        return int(self.inventory["recorded"])

    def session(self, name: str) -> SessionId:
        return SessionId(self.inventory["names"][name])

    def unpack(self, directory: Path) -> None:
        """Put the data directory there, as a killed process left it."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tarfile.open(self.folder / SQLITE) as archive:
            archive.extractall(directory, filter="data")

    async def load(self, dsn: str) -> None:
        """Load the dump into an empty database."""
        script = lzma.decompress((self.folder / POSTGRES).read_bytes()).decode()
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(script)
        finally:
            await connection.close()


@cache
def _inventory(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def write_directory(target: Path, files: dict[str, bytes], owner: str) -> None:
    """Pack a data directory: the database, its log, and the lock that its last owner no longer holds."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, body in ({**files, f"owners/{owner}.lock": b""}).items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(body), 0o600
            archive.addfile(member, io.BytesIO(body))
    (target / SQLITE).write_bytes(lzma.compress(packed.getvalue(), preset=9))


def write_inventory(target: Path, inventory: dict[str, Any]) -> None:
    """Write one line for each session and for each other thing, so that a difference can be read."""
    sessions = inventory.pop("sessions")
    lines = [f" {_json(name)}: {_json(value)}," for name, value in inventory.items()]
    told = ",\n".join(f"  {_json(name)}: {_json(value)}" for name, value in sessions.items())
    text = "\n".join(["{", *lines, ' "sessions": {', told, " }", "}"])
    (target / INVENTORY).write_text(f"{text}\n")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def write_dump(target: Path, dsn: str, pg_dump: Path) -> None:
    """Dump a database as statements that PostgreSQL 14 and later takes, without psql's own commands."""
    options = ("--inserts", "--no-owner", "--no-privileges", "--no-comments", "--encoding=UTF8", dsn)
    running = await asyncio.create_subprocess_exec(pg_dump, *options, stdout=asyncio.subprocess.PIPE)
    output, _ = await running.communicate()
    if running.returncode:
        raise RuntimeError(f"pg_dump ended with {running.returncode}")
    lines = output.decode().splitlines()
    kept = [line for line in lines if not line.startswith(("--", "\\", "SET transaction_timeout"))]
    text = "\n".join(line for line in kept if line) + "\n"
    (target / POSTGRES).write_bytes(lzma.compress(text.encode(), preset=9))
