"""All routes of the server."""

from asyncagents.server import (
    ask,
    async_tool,
    awaited,
    event,
    doing,
    metrics,
    prompt,
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
        *doing.ROUTES,
        *ask.ROUTES,
        *session_state.ROUTES,
        *session_events.ROUTES,
        *awaited.ROUTES,
        *event.ROUTES,
        *task.ROUTES,
        *metrics.ROUTES,
    )
)
