"""Opens a data directory and serves it until a signal comes."""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app import open_runtime
from asyncagents.cli.exit import CONFLICT, Complaint
from asyncagents.cli.run_signal import STOP_SECONDS, Signals
from asyncagents.cli.screen import Screen
from asyncagents.cli.serve_log import log_to_stderr
from asyncagents.cli.trust_offer import load_with_trust
from asyncagents.config.api import api_config
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import Fleet, fleet_config
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import Conflict
from asyncagents.server.discovery import Lock

COLLECT_AFTER = 10_000
"""Allocations between garbage collections of the youngest generation."""
SWITCH_SECONDS = 0.001
"""Interpreter switch interval: how long the writer thread waits for a busy event loop."""


class Wanted(Struct, frozen=True):
    """The options of `asyncagents serve`."""

    hostname: str
    port: int | None
    auth: bool
    origins: tuple[str, ...]
    hosts: tuple[str, ...]
    concurrency: int


def work(wanted: Wanted, directory: Path, data: Path) -> None:
    import uvloop  # start-up: only servers and workers need it

    screen = Screen()
    log_to_stderr()
    loaded = load_with_trust(directory, data, screen)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(wanted, directory, data, loaded.config))


async def _serve(wanted: Wanted, directory: Path, data: Path, config: Config) -> None:
    api = api_config(system_environment())
    with Signals() as signals, _alone(data) if api.enabled else nullcontext() as lock:
        async with open_runtime(
            data,
            config=config,
            coding="each directory",
            serve="later",
            needs_model=False,
            fleet=_fleet(wanted),
        ) as runtime:
            warn_without_model(runtime, Screen())
            if lock is not None:
                await _listen(runtime, wanted, directory, lock=lock, stop=signals)
                return
            _work_on(runtime, wanted)
            click.echo(f"running sessions of {data}; ASYNCAGENTS_API_ENABLED=false: not listening", err=True)
            await signals.heard.wait()
            signals.end_within(STOP_SECONDS)


def _fleet(wanted: Wanted) -> Fleet | None:
    fleet = fleet_config(system_environment())
    return fleet and replace(fleet, concurrency=wanted.concurrency, kind="serve")


def warn_without_model(runtime: Runtime, screen: Screen) -> None:
    """Warn that no model is configured; history can be read without one."""
    if runtime.defaults.missing is not None:
        screen.warn(f"{runtime.defaults.missing}; until then history can be read, and prompts are refused")


def _work_on(runtime: Runtime, wanted: Wanted) -> None:
    """Start running sessions, unless this is a fleet where others run them or have the model."""
    alone = fleet_config(system_environment()) is None
    if alone or (_runs(wanted) and runtime.defaults.missing is None):
        runtime.serve_tree()


def _runs(wanted: Wanted) -> bool:
    """Return whether this process runs sessions: a server of a database file always does."""
    return bool(wanted.concurrency) or fleet_config(system_environment()) is None


@contextmanager
def _alone(data: Path) -> Iterator[Lock]:
    """Take the server lock before the store is opened: a second server would claim sessions."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        lock = Lock(data)
    except Conflict as error:
        raise Complaint(str(error), code=CONFLICT) from error
    with closing(lock):
        yield lock


def _make_haste() -> None:
    """Tune garbage collection and thread switching for a long-running server."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)


async def _listen(runtime: Runtime, wanted: Wanted, directory: Path, *, lock: Lock, stop: Signals) -> None:
    from asyncagents.server.serve import Listening, open_server  # start-up: only with the API

    port = wanted.port if wanted.port is not None else api_config(system_environment()).port
    listening = Listening(
        hostname=wanted.hostname,
        port=port,
        auth=wanted.auth,
        hosts=wanted.hosts,
        origins=wanted.origins,
        runs=_runs(wanted),
    )
    async with open_server(runtime, lock.data, listening, directory=directory, lock=lock) as listing:
        _work_on(runtime, wanted)  # after the API is up
        _make_haste()
        if port and listing.port != port:  # proxies and bookmarks may use the configured port
            click.echo(f"port {port} is in use by another program", err=True)
        click.echo(f"listening at {listing.url}")
        await stop.heard.wait()
        stop.end_within(STOP_SECONDS)
        click.echo("stopping", err=True)
