"""Decides where a run works: in this process, in the server of this data, or in a given one."""

import asyncio

from asyncagents.cli.option import data_directory
from asyncagents.cli.run_order import Order
from asyncagents.cli.screen import Screen
from asyncagents.cli.server_find import find_there


def carry_out(order: Order, screen: Screen) -> int:
    """Run and return the exit code; if the project must be trusted, offer that at the terminal."""
    from asyncagents.cli.trust_offer import with_trust  # start-up: as below

    text = order.format == "text"
    return with_trust(order.directory, screen, lambda: _carry_out(order, screen), offers=text)


def _carry_out(order: Order, screen: Screen) -> int:
    data = data_directory(order.data_dir)
    there = find_there(data, order.attach, order.token)
    if there is None:
        from asyncagents.cli.run_here import find_here, work_here  # start-up: as below

        return asyncio.run(work_here(order, find_here(order, screen), screen))
    from asyncagents.cli.run_attached import work_there  # start-up: a client needs no runtime

    return asyncio.run(work_there(order, there, data, screen))
