"""Packages from npm, installed once into a temporary folder and kept there; one version, exactly."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

SECONDS = 240
UNREACHED = (b"ENOTFOUND", b"ECONNREFUSED", b"EAI_AGAIN", b"ETIMEDOUT", b"ENETUNREACH")


def have_npm() -> str:
    """Where it is; without it there is nothing to test against."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    return npm


async def install_package(package: str, version: str) -> Path:
    """Its folder. Whoever comes second waits for the first."""
    npm = have_npm()
    name = f"asyncagents-npm-{os.getuid()}-{package.replace('/', '-').strip('@')}-{version}"
    home = Path(tempfile.gettempdir()) / name
    home.mkdir(mode=0o700, exist_ok=True)
    folder = home / "node_modules" / package
    with (home / "lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            await _run(npm, "install", home, "--no-save", f"{package}@{version}")
            (home / "done").touch()
    return folder


async def install_lock(lock: Path) -> Path:
    """`node_modules` of exactly what the lock beside its `package.json` names."""
    npm = have_npm()
    known = sha256(await asyncio.to_thread(lock.read_bytes)).hexdigest()[:16]
    name = f"asyncagents-npm-{os.getuid()}-lock-{known}"
    home = Path(tempfile.gettempdir()) / name
    home.mkdir(mode=0o700, exist_ok=True)
    with (home / "lock").open("w") as held:
        await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)
        if not (home / "done").exists():
            for each in (lock, lock.with_name("package.json")):
                shutil.copy(each, home)
            await _run(npm, "ci", home)
            (home / "done").touch()
    return home / "node_modules"


async def _run(npm: str, verb: str, home: Path, *words: str) -> None:
    """A machine that reaches no registry has nothing to test against; whatever else fails is a failure."""
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    process = await asyncio.create_subprocess_exec(
        *(npm, verb, *quiet, "--prefix", str(home), *words),
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    if any(code in said for code in UNREACHED):
        pytest.skip("npm reaches no registry")
    assert process.returncode == 0, said.decode()
