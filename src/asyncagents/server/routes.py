"""All routes of the server."""

from asyncagents.server import (
    ask,
    async_tool,
    awaited,
    message,
    metrics,
    prompt,
    session,
    session_change,
    session_events,
    session_list,
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
        *session_list.ROUTES,
        *session_change.ROUTES,
        *message.ROUTES,
        *prompt.ROUTES,
        *ask.ROUTES,
        *session_state.ROUTES,
        *session_events.ROUTES,
        *awaited.ROUTES,
        *task.ROUTES,
        *metrics.ROUTES,
    )
)
