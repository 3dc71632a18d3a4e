"""Open a data directory, serve it until a signal comes, and say where."""

import asyncio
import signal
from pathlib import Path

import click
from msgspec import Struct

from asyncagents.app import open_runtime
from asyncagents.cli.exit import CONFLICT, Complaint
from asyncagents.cli.screen import Screen, listen
from asyncagents.config.api import api_config
from asyncagents.config.env import system_environment
from asyncagents.config.load import load
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import Conflict


class Wanted(Struct, frozen=True):
    """What the command was told."""

    hostname: str
    port: int | None
    auth: bool
    origins: tuple[str, ...]
    hosts: tuple[str, ...]


def work(wanted: Wanted, directory: Path, data: Path) -> None:
    import uvloop  # start-up: nothing else needs it

    screen = Screen()
    listen(screen)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(wanted, directory, data, screen))


async def _serve(wanted: Wanted, directory: Path, data: Path, screen: Screen) -> None:
    loaded = load(system_environment(), directory=directory, data_dir=data)
    for warning in loaded.warnings:
        screen.warn(warning)
    api, stop = api_config(system_environment()), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_runtime(data, config=loaded.config, coding="each directory", serve="later") as runtime:
        if not api.enabled:
            runtime.serve_tree()
            click.echo(f"working on {data}; ASYNCAGENTS_API_ENABLED=false: nobody is listened to", err=True)
            await stop.wait()
            return
        await _listen(runtime, wanted, directory, data=data, stop=stop)


async def _listen(
    runtime: Runtime, wanted: Wanted, directory: Path, *, data: Path, stop: asyncio.Event
) -> None:
    from asyncagents.server.serve import Listening, open_server  # start-up: only who listens needs it

    port = wanted.port if wanted.port is not None else api_config(system_environment()).port
    listening = Listening(
        hostname=wanted.hostname, port=port, auth=wanted.auth, hosts=wanted.hosts, origins=wanted.origins
    )
    try:
        async with open_server(runtime, data, listening, directory=directory) as listing:
            runtime.serve_tree()  # not before it can be asked what it does
            click.echo(f"listening at {listing.url}")
            await stop.wait()
            click.echo("stopping", err=True)
    except Conflict as error:
        raise Complaint(str(error), code=CONFLICT) from error
