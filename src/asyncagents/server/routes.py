"""All routes of the server."""

from asyncagents.server import (
    ask,
    async_tool,
    awaited,
    metrics,
    prompt,
    revert,
    session,
    session_events,
    session_state,
    status,
    task,
)
from asyncagents.server.openapi import described
from asyncagents.server.route import Route

ROUTES: tuple[Route, ...] = described(
    (
        *status.ROUTES,
        *async_tool.ROUTES,
        *session.ROUTES,
        *prompt.ROUTES,
        *ask.ROUTES,
        *revert.ROUTES,
        *session_state.ROUTES,
        *session_events.ROUTES,
        *awaited.ROUTES,
        *task.ROUTES,
        *metrics.ROUTES,
    )
)
