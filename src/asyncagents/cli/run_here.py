"""Carry out an order: in this process."""

from msgspec import Struct

from asyncagents.app import open_runtime
from asyncagents.cli.run_choice import choose
from asyncagents.cli.run_order import Order
from asyncagents.cli.run_session import Job, supervised
from asyncagents.cli.run_signal import Signals
from asyncagents.cli.screen import Screen
from asyncagents.config.agents import find_agents
from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.load import load
from asyncagents.engine.agents import Agents


class Here(Struct, frozen=True):
    """What counts in the directory that a command was given in."""

    config: Config
    agents: Agents


def find_here(order: Order, screen: Screen) -> Here:
    """What is odd about the files is said once."""
    environment = system_environment()
    loaded = load(environment, directory=order.directory, data_dir=order.data_dir)
    found = find_agents(environment, order.directory, trusted=loaded.trusted)
    for warning in (*loaded.warnings, *found.told):
        screen.warn(warning)
    return Here(loaded.config, Agents(loaded.config, found, home=str(environment.home)))


async def work_here(order: Order, place: Here, screen: Screen) -> int:
    """Returns the exit code. Nothing is stored for an order that cannot be carried out."""
    config = place.config
    chosen = choose(config, place.agents, order, None) if order.sends and not order.resumes else None
    with Signals() as signals:
        async with open_runtime(
            config.data_dir, config=config, coding="each directory", serve=False
        ) as runtime:
            job = Job(
                runtime,
                order,
                lambda session: choose(config, place.agents, order, session),
                screen=screen,
            )
            return await supervised(job, signals, chosen)
