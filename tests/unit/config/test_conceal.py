"""A process whose environment nobody else reads, and that goes on using it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc here")

ASKED = """
import ctypes, os, subprocess, sys, time
from asyncagents.config.conceal import conceal_environment
if sys.argv[1] == "yes":
    conceal_environment()
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
time.tzset()
child = subprocess.run(["sh", "-c", "echo $SECRET"], capture_output=True, text=True).stdout.strip()
files = len(os.listdir("/proc/self/fd"))
print(os.environ["SECRET"], libc.getenv(b"SECRET").decode(), time.tzname[0], child, files > 2)
print(libc.prctl(3, 0, 0, 0, 0), flush=True)
sys.stdin.read()
"""


def look(concealed: str) -> tuple[list[str], bytes | None]:
    """What such a process says, and what another of the same user reads of its environment; None: nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", ASKED, concealed],
        env={"SECRET": "hush", "TZ": "Asia/Tokyo", "PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said = [process.stdout.readline().strip(), process.stdout.readline().strip()]
    try:
        read: bytes | None = Path(f"/proc/{process.pid}/environ").read_bytes()
    except PermissionError:
        read = None
    process.communicate("")
    assert process.returncode == 0
    return said, read


def test_a_concealed_environment_is_usable_inside_and_unreadable_outside() -> None:
    said, read = look("yes")
    assert said == ["hush hush JST hush True", "0"]
    assert read is None if os.geteuid() else read is not None and set(read) == {0}


def test_an_environment_that_is_not_concealed_is_readable_outside() -> None:
    """Else the test above could not fail."""
    said, read = look("no")
    assert said == ["hush hush JST hush True", "1"]
    assert read is not None
    assert b"SECRET=hush" in read
