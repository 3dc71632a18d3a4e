"""Carry out an order in this process, and answer over HTTP meanwhile if that is wanted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from asyncagents.app import open_runtime
from asyncagents.cli.run_choice import Addressee, choose
from asyncagents.cli.run_order import Order
from asyncagents.cli.run_session import Job, supervised
from asyncagents.cli.run_signal import Signals
from asyncagents.cli.screen import Screen
from asyncagents.config.agents import find_agents
from asyncagents.config.api import api_config
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.load import load
from asyncagents.domain.session import Session
from asyncagents.engine.agents import Agents
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import Conflict, NotTrusted
from asyncagents.llm.alias import find_alias
from asyncagents.server.discovery import Lock


class Here(Struct, frozen=True):
    """What counts in the directory that a command was given in."""

    config: Config
    agents: Agents
    distrust: tuple[str, ...] = ()
    """What counts for nothing for want of trust."""


def find_here(order: Order, screen: Screen) -> Here:
    """Read what counts in the directory of an order, and say once what is odd about its files."""
    environment = system_environment()
    loaded = load(environment, directory=order.directory, data_dir=order.data_dir)
    alias = partial(find_alias, loaded.config)
    found = find_agents(environment, order.directory, trusted=loaded.trusted, alias=alias)
    distrust = (*loaded.distrust, *found.distrust)
    for warning in (*loaded.warnings, *found.told):
        if warning not in distrust:
            screen.warn(warning)
    return Here(loaded.config, Agents(loaded.config, found, home=str(environment.home)), distrust)


def choose_here(place: Here, order: Order, session: Session | None, screen: Screen) -> Addressee:
    """Choose who answers, and say what is not trusted, unless that is the error already."""
    try:
        chosen = choose(place.config, place.agents, order, session)
    except NotTrusted:
        raise
    except Exception:
        _warn(place, screen)
        raise
    _warn(place, screen)
    return chosen


def _warn(place: Here, screen: Screen) -> None:
    for warning in place.distrust:
        screen.warn(warning)


async def work_here(order: Order, place: Here, screen: Screen) -> int:
    """Returns the exit code. Nothing is stored for an order that cannot be carried out."""
    config = place.config
    chosen = choose_here(place, order, None, screen) if order.sends and not order.resumes else None
    if not order.sends:
        _warn(place, screen)
    with Signals() as signals:
        async with (
            open_runtime(config.data_dir, config=config, coding="each directory", serve=False) as runtime,
            _answering(runtime, order, config.data_dir, screen),
        ):
            job = Job(
                runtime,
                order,
                lambda session: choose_here(place, order, session, screen),
                screen=screen,
            )
            return await supervised(job, signals, chosen)


@asynccontextmanager
async def _answering(runtime: Runtime, order: Order, data: Path, screen: Screen) -> AsyncIterator[None]:
    """Before the first tool runs. What others are asked to do here is left to who serves them."""
    api = api_config(system_environment())
    lock = _lock(data, screen) if order.api and api.enabled else None
    if lock is None:
        yield
        return
    from asyncagents.server.serve import Listening, open_server  # start-up: only who listens needs it

    port = order.port if order.port is not None else api.port
    listening = Listening(port=port, serves_all=False)
    try:
        async with open_server(runtime, data, listening, directory=order.directory, lock=lock) as listing:
            screen.note(f"listening at {listing.url}")
            yield
    finally:
        lock.close()


def _lock(data: Path, screen: Screen) -> Lock | None:
    """There is one server for a data directory; whoever comes second does without."""
    try:
        return Lock(data)
    except Conflict as error:
        screen.tell(f"warning: {error}")
        return None
