"""All routes of the server."""

from asyncagents.server import async_tool, status
from asyncagents.server.openapi import described
from asyncagents.server.route import Route

ROUTES: tuple[Route, ...] = described((*status.ROUTES, *async_tool.ROUTES))
