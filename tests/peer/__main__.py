"""`python -m tests.peer real|ours|URL …`: one of the servers to try things by hand, or drive one that runs."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.e2e.npm import installed_from
from tests.peer.provider import open_servants
from tests.peer.stage import ground_at, our_server, real_server

HERE = Path(__file__).parent


async def serve(which: str) -> None:
    modules = await installed_from(HERE / "package-lock.json")
    with tempfile.TemporaryDirectory() as root:
        async with open_servants() as provider:
            ground = ground_at(Path(root).resolve(), provider.url)
            async with real_server(modules, ground) if which == "real" else our_server(ground) as served:
                sys.stdout.write(f"{served.url} {served.token} {ground.project} {ground.other} {ground.plain} {provider.url}\n")
                sys.stdout.flush()
                await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
