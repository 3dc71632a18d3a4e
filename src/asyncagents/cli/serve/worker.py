"""`asyncagents worker`: run the sessions of pools of a shared database."""

import asyncio
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.runtime import open_runtime
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.options import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.cli.project.trust_offer import load_with_trust
from asyncagents.cli.serve.serve import log_to_stderr
from asyncagents.cli.terminal.screen import Screen
from asyncagents.cli.terminal.signals import STOP_SECONDS, Signals
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import CONCURRENCY, STORE_VARIABLE, Fleet, fleet_config


@click.command()
@click.option(
    "--pools",
    metavar="NAMES",
    help="Comma-separated pools to serve; else ASYNCAGENTS_POOL, else this machine's own.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 2_000),
    default=CONCURRENCY,
    help=f"Max concurrent sessions; default: {CONCURRENCY}.",
)
@click.option(
    "--drain",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    help="Time for turns to finish after a stop signal; default: 30. Other workers continue the rest.",
)
@directory_option
@data_dir_option
def worker(
    *, pools: str | None, concurrency: int, drain: float, directory: Path, data_dir: Path | None
) -> None:
    """Run sessions of a shared database, beside other workers.

    ASYNCAGENTS_STORE names the database. Start any number of workers on any number of machines: each session
    is run by one of them at a time, and if a worker dies, others continue its sessions. A session belongs to
    a pool: that of the machine it was created on, or the one that ASYNCAGENTS_POOL names there, for machines
    that share their directories. After SIGINT or SIGTERM it claims nothing new and stops when its turns have
    ended, at the latest after --drain; a second signal exits at once, and nothing is lost by that.

    Exit codes: 0 stopped; 1 the database cannot be used; 2 wrong usage; 130 and 143 exited at once.
    """

    names = tuple(name.strip() for name in pools.split(",") if name.strip()) if pools else ()
    run_worker(WorkerOptions(names, concurrency, drain), project_folder(directory), data_directory(data_dir))


NO_STORE = f"{STORE_VARIABLE} names no database; a file is served by `asyncagents serve`"


class WorkerOptions(Struct, frozen=True):
    """The options of `asyncagents worker`."""

    pools: tuple[str, ...]
    concurrency: int
    drain: float


def run_worker(options: WorkerOptions, directory: Path, data: Path) -> None:
    import uvloop  # start-up: only servers and workers need it

    log_to_stderr()
    loaded = load_with_trust(directory, data, Screen())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run_worker(options, data, loaded.config))


async def _run_worker(options: WorkerOptions, data: Path, config: Config) -> None:
    fleet = _fleet(options)
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
            await signals.received.wait()
            click.echo(f"stopping: {runtime.live} sessions at work", err=True)
            await runtime.drain(options.drain)
            signals.force_exit_after(STOP_SECONDS)


def _fleet(options: WorkerOptions) -> Fleet:
    fleet = fleet_config(system_environment())
    if fleet is None:
        raise CliError(NO_STORE, hint=f"set {STORE_VARIABLE}=postgresql://…", code=USAGE)
    pools = options.pools or fleet.pools
    return replace(fleet, pools=pools, concurrency=options.concurrency, kind="worker")
