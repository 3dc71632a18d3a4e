"""Foreign Python programs in an environment of their own, installed once from a hashed lock and kept."""

import asyncio
import fcntl
import os
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import pytest

SECONDS = 240
UNREACHED = (
    b"dns error",
    b"Connection refused",
    b"Could not connect",
    b"timed out",
    b"error sending request",
)
UV = Path(sys.executable).with_name("uv")


async def install_requirements(lock: Path) -> Path:
    """Return the Python of an environment with exactly what the lock names."""
    known = sha256(await asyncio.to_thread(lock.read_bytes)).hexdigest()[:16]
    home = Path(tempfile.gettempdir()) / f"asyncagents-pip-{os.getuid()}-{known}"
    home.mkdir(mode=0o700, exist_ok=True)
    python = home / "venv" / "bin" / "python"
    with (home / "lock").open("w") as held:
        await asyncio.to_thread(fcntl.flock, held, fcntl.LOCK_EX)
        if not (home / "done").exists():
            await _run(sys.executable, "-m", "venv", "--without-pip", str(home / "venv"))
            await _run(
                *_uv(),
                "pip",
                "install",
                "--quiet",
                "--python",
                str(python),
                "--require-hashes",
                "-r",
                str(lock),
            )
            (home / "done").touch()
    return python


def _uv() -> tuple[str, ...]:
    return (str(UV),) if UV.exists() else ("uv",)


async def _run(*command: str) -> None:
    """A machine that reaches no registry has nothing to test against; whatever else fails is a failure."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(SECONDS):
        said, _ = await process.communicate()
    if process.returncode and any(words in said for words in UNREACHED):
        pytest.skip("pip reaches no registry")
    assert process.returncode == 0, said.decode()
