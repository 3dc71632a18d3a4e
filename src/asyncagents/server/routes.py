"""All routes of the server."""

from asyncagents.server.openapi import with_document
from asyncagents.server.opencode import (
    actions,
    agent,
    ask,
    config,
    event,
    experimental,
    file,
    mcp,
    mention,
    message,
    project,
    prompt,
    provider,
    revert,
    session,
    session_update,
    tui,
    vcs,
)
from asyncagents.server.route import Route
from asyncagents.server.v1 import (
    approvals,
    asks,
    async_tool,
    metrics,
    prompts,
    session_events,
    sessions,
    tasks,
)

ROUTES: tuple[Route, ...] = with_document(
    (
        *tasks.ROUTES,
        *async_tool.ROUTES,
        *session.ROUTES,
        *session_update.ROUTES,
        *message.ROUTES,
        *prompt.ROUTES,
        *prompts.ROUTES,
        *actions.ROUTES,
        *ask.ROUTES,
        *asks.ROUTES,
        *approvals.ROUTES,
        *revert.ROUTES,
        *sessions.ROUTES,
        *session_events.ROUTES,
        *event.ROUTES,
        *metrics.ROUTES,
        *agent.ROUTES,
        *provider.ROUTES,
        *config.ROUTES,
        *project.ROUTES,
        *vcs.ROUTES,
        *file.ROUTES,
        *mention.ROUTES,
        *mcp.ROUTES,
        *tui.ROUTES,
        *experimental.ROUTES,
    )
)
