"""Opens a shared database, runs its sessions until a signal comes, and lets turns finish."""

import asyncio
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app import open_runtime
from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.run_signal import STOP_SECONDS, Signals
from asyncagents.cli.screen import Screen
from asyncagents.cli.serve_log import log_to_stderr
from asyncagents.cli.trust_offer import load_with_trust
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import STORE_VARIABLE, Fleet, fleet_config

NO_STORE = f"{STORE_VARIABLE} names no database; a file is served by `asyncagents serve`"


class Wanted(Struct, frozen=True):
    """The options of `asyncagents worker`."""

    pools: tuple[str, ...]
    concurrency: int
    drain: float


def work(wanted: Wanted, directory: Path, data: Path) -> None:
    import uvloop  # start-up: only servers and workers need it

    log_to_stderr()
    loaded = load_with_trust(directory, data, Screen())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(wanted, data, loaded.config))


async def _work(wanted: Wanted, data: Path, config: Config) -> None:
    fleet = _fleet(wanted)
    with Signals() as signals:
        async with open_runtime(
            data,
            config=config,
            coding="each directory",
            serve="later",
            needs_model=False,
            fleet=fleet,
        ) as runtime:
            if runtime.defaults.missing is None:
                runtime.serve_tree()
            else:
                Screen().warn(f"{runtime.defaults.missing}; until then this worker claims no sessions")
            click.echo(f"working on {', '.join(fleet.pools)}, {fleet.concurrency} sessions at once")
            await signals.heard.wait()
            click.echo(f"stopping: {runtime.live} sessions at work", err=True)
            await runtime.drain(wanted.drain)
            signals.end_within(STOP_SECONDS)


def _fleet(wanted: Wanted) -> Fleet:
    fleet = fleet_config(system_environment())
    if fleet is None:
        raise Complaint(NO_STORE, hint=f"set {STORE_VARIABLE}=postgresql://…", code=USAGE)
    pools = wanted.pools or fleet.pools
    return replace(fleet, pools=pools, concurrency=wanted.concurrency, kind="worker")
