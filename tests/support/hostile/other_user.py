"""Programs of another user: real processes that send raw requests to a server, and a server of theirs."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from tempfile import TemporaryDirectory

import pytest

from tests.support.http.client import Response
from tests.support.wait import PATIENCE

OTHER_UID = 1234
takes_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a program of another user")

_PROGRAM = """
import encodings.idna, json, os, socket, sys
user = int(sys.argv[3])
if user != os.getuid():  # from here on: the interpreter itself may be root's alone
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
(address, _, own), port = sys.argv[1].partition("@"), int(sys.argv[2])
raw = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
raw.settimeout(20)
if own:
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    host, _, number = own.rpartition(":")
    raw.bind((host, int(number)))
raw.connect((address, port))
file, heard = raw.makefile("rb"), []
for request in json.load(sys.stdin):
    raw.sendall(request.encode("latin-1"))
    lines = iter(file.readline, b"\\r\\n")
    first, headers = next(lines, b"HTTP/1.1 0").split(), {}
    for line in lines:
        if not line:
            break
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    size = 0 if request.startswith("HEAD") else int(headers.get("content-length", 0))
    heard.append([int(first[1]), headers, file.read(size).decode()])
json.dump(heard, sys.stdout)
"""


async def request_as(uid: int, address: str, port: int, requests: Sequence[bytes]) -> list[Response]:
    """Send them one after the other on one connection of a program that this user runs.

    `address` may end with `@`, and the address and port that it comes from.
    """
    words = (sys.executable, "-I", "-S", "-c", _PROGRAM, address, str(port), str(uid))
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE):
        said, _ = await process.communicate(
            json.dumps([each.decode("latin-1") for each in requests]).encode()
        )
    assert process.returncode == 0
    return [Response(status, headers, body.encode()) for status, headers, body in json.loads(said)]


_SERVER = """
import asyncio, encodings.idna, json, os, sys
from asyncagents import ScriptedModel, open_runtime
from asyncagents.server.serve import ServerOptions, open_server

async def main(user, data):
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    async with (
        open_runtime(data, model=ScriptedModel({})) as runtime,
        open_server(runtime, data, ServerOptions(port=0), directory=data) as listing,
    ):
        print(listing.port, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
"""


@asynccontextmanager
async def open_server_as(uid: int) -> AsyncIterator[int]:
    """A server that this user runs, in a process of its own; gives its port."""
    with TemporaryDirectory() as data:  # folders of pytest are for their owner alone
        os.chown(data, uid, uid)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _SERVER, str(uid), data),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                port = int(await process.stdout.readline())
            yield port
        finally:
            async with asyncio.timeout(PATIENCE):
                await process.communicate(b"")  # it stops at the end of its input
    assert process.returncode == 0
