"""Carry out an order: here, in the server that works on this data, or in the one that was named."""

import asyncio

from asyncagents.cli.option import data_directory
from asyncagents.cli.run_order import Order
from asyncagents.cli.screen import Screen
from asyncagents.cli.server_find import find_there


def carry_out(order: Order, screen: Screen) -> int:
    """Return the exit code. Where trust is wanting, the person at the terminal may give it."""
    from asyncagents.cli.trust_offer import with_trust  # start-up: as below

    text = order.format == "text"
    return with_trust(order.directory, screen, lambda: _carry_out(order, screen), offers=text)


def _carry_out(order: Order, screen: Screen) -> int:
    data = data_directory(order.data_dir)
    there = find_there(data, order.attach, order.token)
    if there is None:
        from asyncagents.cli.run_here import find_here, work_here  # start-up: as below

        return asyncio.run(work_here(order, find_here(order, screen), screen))
    from asyncagents.cli.run_attached import work_there  # start-up: a client is no runtime

    return asyncio.run(work_there(order, there, data, screen))
