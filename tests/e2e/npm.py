"""Packages from npm, installed once into a temporary folder and kept there; one version, exactly."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

SECONDS = 240


def have_npm() -> str:
    """Where it is; without it there is nothing to test against."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    return npm


async def installed(package: str, version: str) -> Path:
    """Its folder. Whoever comes second waits for the first."""
    npm = have_npm()
    name = f"asyncagents-npm-{os.getuid()}-{package.replace('/', '-').strip('@')}-{version}"
    home = Path(tempfile.gettempdir()) / name
    home.mkdir(mode=0o700, exist_ok=True)
    folder = home / "node_modules" / package
    with (home / "lock").open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            await _install(npm, home, f"{package}@{version}")
            (home / "done").touch()
    return folder


async def _install(npm: str, home: Path, what: str) -> None:
    quiet = ("--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error")
    process = await asyncio.create_subprocess_exec(
        *(npm, "install", *quiet, "--prefix", str(home), what),
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
