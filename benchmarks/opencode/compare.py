"""Our server, and OpenCode's own beside it, turn by turn: the section of the page that tells of both."""

import asyncio
import re
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.opencode.measure import Seen, measure
from benchmarks.opencode.report import table
from benchmarks.opencode.server import OURS, Contender, Server, peer, provider
from benchmarks.opencode.wire import Place

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
TITLE = "## Under OpenCode's API"
ABOUT = """
The same client, model and configuration at both servers, one after the other, on one machine whose cores they
share; snapshots are off. Each figure is the median of the rounds. CPU is that of the server alone.
A session here is one prompt and one answer of one chunk. `make bench` measures the smallest fan-out of our
server alone, `make bench FULL=1` both servers;
`python -m benchmarks.opencode --full --rounds 3 --keep` writes only this section.
"""
SMALL, SIZES = (50,), (50, 200, 500)
PORT = 20_800


async def _round(contender: Contender, port: int, sizes: tuple[int, ...], *, full: bool) -> Seen:
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder, provider() as model_port:
        server = Server(contender, Path(folder), Place(port), model_port)
        try:
            return await measure(server, sizes, full=full)
        finally:
            server.end()


def compare(*, full: bool, rounds: int = 1, port: int = PORT, sizes: tuple[int, ...] = ()) -> str:
    """The section. A port is used once: whoever was killed may leave it taken for a while."""
    sizes = sizes or (SIZES if full else SMALL)
    seen: dict[str, list[Seen]] = {OURS.name: [], "OpenCode": []}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        against = runner.run(peer()) if full else ""
        contenders = (OURS,) if isinstance(against, str) else (OURS, against)
        for number in range(rounds):
            for contender in contenders:
                sys.stderr.write(f"{contender.name}, round {number + 1} of {rounds}\n")
                seen[contender.name].append(runner.run(_round(contender, port, sizes, full=full)))
                port += 1
    note = f"\nOpenCode itself was left out: {against}.\n" if against and isinstance(against, str) else ""
    return f"{TITLE}\n{ABOUT}{note}\n{table(seen[OURS.name], seen['OpenCode'], sizes)}\n"


def keep(section: str) -> None:
    """In the place of the one that is there."""
    page = PAGE.read_text()
    found = re.compile(rf"{re.escape(TITLE)}\n.*?(?=\n## |\Z)", re.DOTALL)
    whole = found.sub(lambda _: section.rstrip("\n"), page) if found.search(page) else f"{page}\n{section}"
    PAGE.write_text(whole.rstrip("\n") + "\n")
