"""All routes of the server."""

from asyncagents.server import (
    agent,
    ask,
    async_tool,
    awaited,
    doing,
    event,
    experimental,
    file,
    mcp,
    message,
    metrics,
    project,
    prompt,
    provider,
    revert,
    session,
    session_change,
    session_events,
    session_list,
    session_state,
    settings,
    status,
    task,
    vcs,
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
        *doing.ROUTES,
        *ask.ROUTES,
        *revert.ROUTES,
        *session_state.ROUTES,
        *session_events.ROUTES,
        *awaited.ROUTES,
        *event.ROUTES,
        *task.ROUTES,
        *metrics.ROUTES,
        *agent.ROUTES,
        *provider.ROUTES,
        *settings.ROUTES,
        *project.ROUTES,
        *vcs.ROUTES,
        *file.ROUTES,
        *mcp.ROUTES,
        *experimental.ROUTES,
    )
)
