"""The big counts: `python -m tests.soak --seconds 1200`.

Simulated crashes fill the time on both cores. Kills of real processes, power cuts, sieges of a fleet on
PostgreSQL, the tests with the mark `soak`, a hunt for each mutant and new examples of every property follow.
Seeds go on from where the last run of the same commit stopped, and the counts of one commit are added up.
"""

import argparse
import os
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode

from tests.simulation.externals import EXTERNALS
from tests.simulation.hunt import reason
from tests.simulation.parks import PARKS
from tests.simulation.play import play
from tests.simulation.shells import SHELLS
from tests.simulation.talks import TALKS
from tests.simulation.trees import TREES, WAITS
from tests.simulation.undos import UNDOS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "soak-results"
WORKERS = 2
WORLDS = (TREES, WAITS, PARKS, SHELLS, UNDOS, TALKS, EXTERNALS)
COUNTED = {
    "tasks", "ends", "forks", "resumes", "cancels", "aborts", "moved", "deleted", "requests",
    "calls", "results", "duplicates", "conflicts", "early", "late", "batches resumed", "calls expired",
    "calls cancelled", "calls aborted", "calls completed", "calls failed", "calls in doubt",
    "reopened", "forgotten", "deliveries", "posts",
    "foreign prompts", "prompts to go on", "programs cut off",
    "prompts sent again", "foreign asks", "foreign calls allowed",
    "foreign steps done", "foreign steps TaskInDoubt",
    "notices told", "notices consumed", "notices quiet", "tasks completed", "tasks error", "tasks cancelled",
}  # fmt: skip


class Tally(Struct):
    """What was done for one commit; `next_seed` is where the next run goes on."""

    seeds: int = 0
    crashes: int = 0
    seconds: float = 0
    next_seed: int = 10_000
    broken: list[str] = []
    counts: dict[str, int] = {}
    """Of tasks: launched, ended, told of, and what was done to them; of async calls, what they came to."""


def commit() -> str:
    """The commit under test; work that is not committed counts as another one."""
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head}-dirty" if _git("status", "--porcelain", "src", "tests/simulation") else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _work(first: int, seconds: float) -> Tally:
    """One worker: every second seed until the time is up, of each kind of worlds."""
    tally = Tally(next_seed=first, counts={})
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for seed in (
            tally.next_seed,
            *(world + tally.next_seed for world in WORLDS),
        ):
            _play(tally, seed)
        tally.next_seed += WORKERS
    return tally


def _play(tally: Tally, seed: int) -> None:
    try:
        done = play(seed)
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  whatever breaks is counted
        tally.broken.append(f"seed {seed}: {reason(error)}")
        print(tally.broken[-1], flush=True)
    else:
        tally.crashes += done.crashes
        for what in COUNTED & done.counts.keys():
            tally.counts[what] = tally.counts.get(what, 0) + done.counts[what]
    tally.seeds += 1


def simulate(tally: Tally, seconds: float) -> Tally:
    with get_context("spawn").Pool(WORKERS) as pool:
        jobs = [(tally.next_seed + worker, seconds) for worker in range(WORKERS)]
        done = pool.starmap(_work, jobs)
    return Tally(
        seeds=tally.seeds + sum(each.seeds for each in done),
        crashes=tally.crashes + sum(each.crashes for each in done),
        seconds=tally.seconds + seconds,
        next_seed=max(each.next_seed for each in done),
        broken=tally.broken + [line for each in done for line in each.broken],
        counts=_sum([tally.counts, *(each.counts for each in done)]),
    )


def _sum(counts: list[dict[str, int]]) -> dict[str, int]:
    names = sorted({name for each in counts for name in each})
    return {name: sum(each.get(name, 0) for each in counts) for name in names}


def _report(tally: Tally) -> None:
    print(f"simulation of {commit()}: {tally.seeds} seeds, {tally.crashes} crashes in {tally.seconds:.0f} s")
    print(f"  {tally.crashes / tally.seconds:.1f} crashes a second, {len(tally.broken)} violations")
    print("  counted: " + ", ".join(f"{many} {what}" for what, many in tally.counts.items()))
    if not tally.broken:
        print(
            f"  with 95 % confidence fewer than 3/{tally.seeds} = {3 / tally.seeds:.1e} of such worlds fail"
        )


def _run(*words: str, examples: str = "same", **more: str) -> int:
    environment = os.environ | {"ASYNCAGENTS_EXAMPLES": examples} | more
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=environment, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200, help="for the simulation")
    for name, many, what in COUNTS:
        parser.add_argument(f"--{name}", type=int, default=many, help=f"{what}, afterwards")
    return parser.parse_args()


COUNTS = (
    ("servers", 20, "kills of `asyncagents serve`"),
    ("loris", 500, "slow connections to one"),
    ("kills", 200, "kills of real processes"),
    ("runs", 50, "kills of `asyncagents run`"),
    ("fans", 20, "fan-outs, killed five times each"),
    ("parks", 100, "kills around waits for results"),
    ("cuts", 2000, "power cuts"),
    ("waiting", 2000, "power cuts while results come in"),
    ("requests", 20_000, "requests made of the API's document"),
    ("events", 1_000_000, "events of tasks to streams"),
    ("disconnects", 500, "ends of streams of events"),
    ("signals", 3000, "signals to a fleet whose workers are killed and stopped"),
    ("restarts", 20, "restarts of its database"),
    ("crowd", 10_000, "sessions that wait before another project's"),
    ("wakes", 400, "wakes of sessions at rest, by another process"),
    ("hostile", 200, "prompts while another project's tools do their worst"),
    ("replays", 40, "logs of each kind of worlds, replayed on PostgreSQL"),
    ("races", 500, "writes of each of sixteen writers, against readers of changes"),
    ("tests", 1, "all tests with the mark `soak` (0 leaves them out)"),
    ("mutants", 1, "a hunt for each mutant of the simulation (0 leaves it out)"),
    ("flows", 1, "all flows and contracts on PostgreSQL (0 leaves them out)"),
    ("properties", 1, "new examples for properties (0 leaves them out)"),
)


def _plan(of: argparse.Namespace) -> list[tuple[bool, tuple[str, ...]]]:
    """What is run after the simulation, if any of it is wanted."""
    cuts, events = of.cuts + of.waiting, of.events + of.disconnects
    return [
        (of.servers > 0, ("tests.support.kills.serve_kills", "--kills", str(of.servers))),
        (of.loris > 0, ("tests.support.load.slow_client", "--connections", str(of.loris))),
        (of.kills > 0, ("tests.support.kills.worker_kills", "--kills", str(of.kills))),
        (of.runs > 0, ("tests.support.kills.run_kills", "--kills", str(of.runs))),
        (of.fans > 0, ("tests.support.kills.task_kills", "--rounds", str(of.fans))),
        (of.parks > 0, ("tests.support.kills.park_kills", "--kills", str(of.parks))),
        (cuts > 0, ("tests.support.kills.power_cut", "--cuts", str(cuts), "--waiting", str(of.waiting))),
        (of.requests > 0, ("tests.support.load.documented", "--cases", str(of.requests))),
        (
            events > 0,
            ("tests.support.load.board_stream", "--events", str(of.events), "--cuts", str(of.disconnects)),
        ),
        (of.disconnects > 0, ("tests.support.load.event_stream", "--cuts", str(of.disconnects))),
        (of.signals + of.restarts + of.crowd + of.wakes > 0, ("tests.support.fleet.siege", *_siege(of))),
        (
            of.hostile > 0,
            ("tests.support.load.hostile_project", "--calls", "40", "--prompts", str(of.hostile)),
        ),
        (of.replays > 0, ("tests.simulation.replay", "--first", "10000", "--seeds", str(of.replays))),
        (of.races > 0, ("tests.support.postgres.feed_race", "--writes", str(of.races))),
    ]


def _siege(of: argparse.Namespace) -> tuple[str, ...]:
    named = {name: getattr(of, name) for name in ("signals", "restarts", "crowd", "wakes")}
    return ("--sessions", "200", *(word for name, many in named.items() for word in (f"--{name}", str(many))))


def main() -> int:
    options = _options()
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{commit()}.json"
    before = decode(file.read_bytes(), type=Tally) if file.exists() else Tally()
    tally = simulate(before, options.seconds)
    file.write_bytes(encode(tally))
    _report(tally)
    failed = [_run(*words) != 0 for wanted, words in _plan(options) if wanted]
    if options.tests:
        marked = ("-q", "-n", "4", "--dist", "worksteal", "-m", "soak", "tests")
        failed.append(_run("pytest", *marked, ASYNCAGENTS_SOAK="all") != 0)
    if options.mutants:
        failed.append(_run("tests.simulation.killing_seeds", "--check") != 0)
    if options.flows:
        words = ("pytest", "-q", "-n", "4", "tests/flows", "tests/contract")
        failed.append(_run(*words, examples="drawn", ASYNCAGENTS_TEST_FLOWS="postgres") != 0)
    if options.properties:
        failed.append(_run("pytest", "-q", "-m", "hypothesis", "tests", examples="drawn") != 0)
    return int(bool(tally.broken) or any(failed))


if __name__ == "__main__":
    sys.exit(main())
