"""Carry out an order: here, or in a server."""

import asyncio

from asyncagents.cli.run_here import find_here, work_here
from asyncagents.cli.run_order import Order
from asyncagents.cli.screen import Screen


def carry_out(order: Order, screen: Screen) -> int:
    return asyncio.run(work_here(order, find_here(order, screen), screen))
