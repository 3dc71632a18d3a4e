"""By hand: `python -m tests.peer real` (or `ours`) serves, `… compare` tells all differences,
`… record` writes the shapes of our answers.

`… drive URL TOKEN DIRECTORY` drives a server that runs, and prints what it was told; without a provider
called `stage` that plays what prompts say, most scenes end early.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.peer.compare import compared
from tests.peer.drive import LOCK, both, driven, ours
from tests.peer.provider import open_servants
from tests.peer.shape import FILE, digest_shapes
from tests.peer.stage import Ground, Served, ground_at, our_server, real_server
from tests.support.process.npm import install_lock


async def serve(which: str, modules: Path, root: Path) -> None:
    async with open_servants() as provider:
        ground = ground_at(root, provider.url)
        async with real_server(modules, ground) if which == "real" else our_server(ground) as served:
            places = (ground.project, ground.other, ground.plain, provider.url)
            say(" ".join((served.url, served.token, *map(str, places))))
            await asyncio.Event().wait()


async def compare(modules: Path, root: Path) -> None:
    theirs, mine = await both(modules, root)
    for each in (*theirs.broken, *mine.broken, *compared(theirs.answers, mine.answers)):
        say(str(each))


async def record(modules: Path, root: Path) -> None:
    told = await ours(modules, root)
    FILE.write_text(json.dumps(digest_shapes(told.answers), indent=1) + "\n")


async def drive(modules: Path, root: Path, words: tuple[str, ...]) -> None:
    url, token, directory = words
    ground = Ground(root, Path(directory), Path(directory), root, "http://provider")
    told = await driven(Served(url, ground, token), modules, verbose=True)
    say(json.dumps(told.answers, indent=2))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main(verb: str, *words: str) -> None:
    modules = await install_lock(LOCK)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        match verb:
            case "real" | "ours":
                await serve(verb, modules, root)
            case "compare":
                await compare(modules, root)
            case "record":
                await record(modules, root)
            case "drive":
                await drive(modules, root, words)
            case _:
                raise SystemExit(__doc__)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
