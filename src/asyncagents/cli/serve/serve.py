"""`asyncagents serve`: run all sessions of a data directory, and serve the HTTP API."""

import asyncio
import gc
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.app.backend import make_data_directory
from asyncagents.app.runtime import open_runtime
from asyncagents.cli.exit import CONFLICT, CliError
from asyncagents.cli.options import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.cli.project.trust_offer import load_with_trust
from asyncagents.cli.serve.until_rest import REST_SECONDS, RestWatch, print_remainder
from asyncagents.cli.terminal.screen import Screen, plain
from asyncagents.cli.terminal.signals import STOP_SECONDS, Signals
from asyncagents.config.api import api_config
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import CONCURRENCY, Fleet, fleet_config
from asyncagents.domain.task.view import iso_time
from asyncagents.domain.text import error_text
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import AsyncAgentsError, Conflict
from asyncagents.server.discovery import ServerLock


@click.command()
@click.option(
    "--hostname", metavar="ADDRESS", default="127.0.0.1", help="Address to listen on; default: 127.0.0.1."
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65_535),
    help="Port, or the first free one of the nine after it; else ASYNCAGENTS_API_PORT, else 5165.",
)
@click.option(
    "--no-auth", is_flag=True, help="Give every program of this machine full access without the token."
)
@click.option(
    "--cors",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Allow browser requests from this origin, such as http://localhost:3000; repeatable.",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Accept this Host header too, for a tunnel or a proxy; repeatable.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(0, 2_000),
    default=CONCURRENCY,
    help="With ASYNCAGENTS_STORE: max concurrent sessions; 0: only serve the API, run no sessions.",
)
@click.option(
    "--until-rest",
    is_flag=True,
    help="End when no session works and no client is there any more.",
)
@click.option(
    "--rest-seconds",
    metavar="N",
    type=click.FloatRange(1, 86_400),
    help=f"With --until-rest: how long that must last; default: {REST_SECONDS:g}.",
)
@directory_option
@data_dir_option
def serve(  # noqa: PLR0913  its options
    *,
    hostname: str,
    port: int | None,
    no_auth: bool,
    origins: tuple[str, ...],
    hosts: tuple[str, ...],
    concurrency: int,
    until_rest: bool,
    rest_seconds: float | None,
    directory: Path,
    data_dir: Path | None,
) -> None:
    """Run all sessions of a data directory, and serve the HTTP API.

    Unfinished work continues. The address is printed, and stored with the token in server.json of the data
    directory, where every other command finds it. SIGINT or SIGTERM stop it: responses finish, and
    interrupted work continues with the next start. A second signal exits at once; nothing is lost by that.
    ASYNCAGENTS_API_ENABLED=false: it runs sessions and does not listen. With ASYNCAGENTS_STORE sessions are
    stored in a shared database, with any number of servers and workers.

    With --until-rest it ends by itself, five minutes after the last session rests and the last client left,
    and prints what stays: asks, results to come, later deadlines. The next server goes on with them.

    Exit codes: 0 stopped, or ended at rest; 1 the data or the token cannot be used; 2 wrong usage; 4 another
    server runs on that data; 130 and 143 exited at once.
    """

    if rest_seconds is not None and not until_rest:
        raise click.UsageError("--rest-seconds requires --until-rest")
    options = ServeOptions(
        hostname,
        port,
        auth=not no_auth,
        origins=origins,
        hosts=hosts,
        concurrency=concurrency,
        rest_seconds=(rest_seconds or REST_SECONDS) if until_rest else None,
    )
    run_server(options, project_folder(directory), data_directory(data_dir))


class StderrLogHandler(logging.Handler):
    """Writes every logged warning to stderr, store errors included; unexpected errors with a traceback.

    Repeated records are written each time, as a server runs for months. `timed`: each with its time.
    """

    def __init__(self, *, timed: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._timed = timed

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message, why = record.getMessage(), error_text(error) if error is not None else ""
        time = f"{iso_time(int(record.created * 1000))} " if self._timed else ""
        lines = [f"{time}{record.levelname.lower()}: {message if why in message else f'{message}: {why}'}"]
        if record.levelno >= logging.ERROR and not isinstance(error, AsyncAgentsError | None):
            lines += traceback.format_exception(error)
        with suppress(OSError, ValueError):  # stderr is closed, or the disk is full: keep running
            click.echo(plain("\n".join(lines).rstrip("\n")), err=True)


def log_to_stderr(*, timed: bool = False) -> None:
    logging.getLogger().handlers = [StderrLogHandler(timed=timed)]


GC_THRESHOLD = 10_000
"""Allocations between garbage collections of the youngest generation."""
SWITCH_SECONDS = 0.001
"""Interpreter switch interval: how long the writer thread waits for a busy event loop."""


class ServeOptions(Struct, frozen=True):
    """The options of `asyncagents serve`."""

    hostname: str
    port: int | None
    auth: bool
    origins: tuple[str, ...]
    hosts: tuple[str, ...]
    concurrency: int
    rest_seconds: float | None
    """How long rest lasts before the server ends; None: it runs until it is stopped."""


def run_server(options: ServeOptions, directory: Path, data: Path) -> None:
    import uvloop  # start-up: only servers and workers need it

    screen = Screen()
    log_to_stderr(timed=options.rest_seconds is not None)  # often to a file, which adds no time
    loaded = load_with_trust(directory, data, screen)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options, directory, data, loaded.config))


async def _serve(options: ServeOptions, directory: Path, data: Path, config: Config) -> None:
    api = api_config(system_environment())
    with Signals() as signals, _lock_data(data) if api.enabled else nullcontext() as lock:
        async with open_runtime(
            data,
            config=config,
            coding="each directory",
            serve="later",
            needs_model=False,
            fleet=_fleet(options),
        ) as runtime:
            warn_without_model(runtime, Screen())
            if lock is not None:
                await _listen(runtime, options, directory, lock=lock, signals=signals)
            else:
                _start_work(runtime, options)
                click.echo(
                    f"running sessions of {data}; ASYNCAGENTS_API_ENABLED=false: not listening", err=True
                )
                watch = _watch_rest(runtime, options, signals)
                await (signals.received.wait() if watch is None else watch.wait_for_rest())
            if not signals.received.is_set():
                await print_remainder(runtime, data)
            signals.force_exit_after(STOP_SECONDS)


def _fleet(options: ServeOptions) -> Fleet | None:
    fleet = fleet_config(system_environment())
    return fleet and replace(fleet, concurrency=options.concurrency, kind="serve")


def warn_without_model(runtime: Runtime, screen: Screen) -> None:
    """Warn that no model is configured; history can be read without one."""
    if runtime.defaults.missing is not None:
        screen.warn(f"{runtime.defaults.missing}; until then history can be read, and prompts are refused")


def _start_work(runtime: Runtime, options: ServeOptions) -> None:
    """Start running sessions, unless this is a fleet where others run them or have the model."""
    alone = fleet_config(system_environment()) is None
    if alone or (_runs_sessions(options) and runtime.defaults.missing is None):
        runtime.serve_tree()


def _runs_sessions(options: ServeOptions) -> bool:
    """Return whether this process runs sessions: a server of a database file always does."""
    return bool(options.concurrency) or fleet_config(system_environment()) is None


@contextmanager
def _lock_data(data: Path) -> Iterator[ServerLock]:
    """Take the server lock before the store is opened: a second server would claim sessions."""
    make_data_directory(data)
    try:
        lock = ServerLock(data)
    except Conflict as error:
        raise CliError(str(error), code=CONFLICT) from error
    with closing(lock):
        yield lock


def _tune_interpreter() -> None:
    """Tune garbage collection and thread switching for a long-running server."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)


async def _listen(
    runtime: Runtime, options: ServeOptions, directory: Path, *, lock: ServerLock, signals: Signals
) -> None:
    from asyncagents.cli.serve.mcp_mount import open_mcp_mount  # start-up: only with the API
    from asyncagents.server.serve import ServerOptions, open_server

    port = options.port if options.port is not None else api_config(system_environment()).port
    server_options = ServerOptions(
        hostname=options.hostname,
        port=port,
        auth=options.auth,
        hosts=options.hosts,
        origins=options.origins,
        runs=_runs_sessions(options),
        rest_seconds=options.rest_seconds,
    )
    watch = _watch_rest(runtime, options, signals)
    while True:
        async with (
            open_mcp_mount(runtime, lock.data, directory) as mount,
            open_server(
                runtime, lock.data, server_options, directory=directory, lock=lock, mounts=(mount,)
            ) as listing,
        ):
            _start_work(runtime, options)  # after the API is up
            _tune_interpreter()
            if port and listing.port != port:  # proxies and bookmarks may use the configured port
                taken = f"port {port} is in use by another program: this server takes {listing.port}"
                click.echo(f"warning: {taken}; --port chooses another", err=True)
            click.echo(f"listening at {listing.url}")
            await (signals.received.wait() if watch is None else watch.wait_and_withdraw(lock.data, listing))
            if signals.received.is_set():
                signals.force_exit_after(STOP_SECONDS)
                click.echo("stopping", err=True)
        # No request is answered any more; one that came at the last moment must not be left alone.
        if signals.received.is_set() or watch is None or await watch.is_at_rest():
            return


def _watch_rest(runtime: Runtime, options: ServeOptions, signals: Signals) -> RestWatch | None:
    seconds = options.rest_seconds
    return None if seconds is None else RestWatch(runtime, seconds, signals.received)
