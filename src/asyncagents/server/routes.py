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
    mcp_servers,
    metrics,
    prompts,
    session_events,
    sessions,
    tasks,
)

ROUTES: tuple[Route, ...] = with_document(
    (
        *tasks.routes,
        *async_tool.routes,
        *session.routes,
        *session_update.routes,
        *message.routes,
        *prompt.routes,
        *prompts.routes,
        *actions.routes,
        *ask.routes,
        *asks.routes,
        *approvals.routes,
        *revert.routes,
        *sessions.routes,
        *mcp_servers.routes,
        *session_events.routes,
        *event.routes,
        *metrics.routes,
        *agent.routes,
        *provider.routes,
        *config.routes,
        *project.routes,
        *vcs.routes,
        *file.routes,
        *mention.routes,
        *mcp.routes,
        *tui.routes,
        *experimental.routes,
    )
)
