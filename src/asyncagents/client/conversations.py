"""Sessions of one agent: beginning one, and forking it."""

from typing import Any

from asyncagents.client.json_client import JsonClient, build_path
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.http_shapes import BeginResult, SessionState
from asyncagents.domain.id import SessionId


class ClientConversations:
    """`client.conversations`: sessions that belong to an agent from their beginning."""

    def __init__(self, client: JsonClient) -> None:
        self._http = client

    async def begin(
        self,
        text: str,
        *,
        agent: str | None,
        directory: str,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Session:
        """Create a session of an agent, which may be a subagent, with its first prompt, atomically.

        `agent` None: the default one of `directory`, an absolute path on the server. The same key again
        returns the same session.
        """
        given = {"sessionAgent": agent, "title": title, "metadata": metadata}
        body = {name: value for name, value in given.items() if value is not None}
        body |= {"prompt": text, "directory": directory}
        return (await self._http.post("/v1/sessions", BeginResult, body, key=key)).session

    async def find(self, start: str) -> SessionState:
        """Get the session, with its state, whose id is or unambiguously begins with `start`."""
        return await self._http.get(build_path("v1", "sessions", start), SessionState, {"prefix": "true"})

    async def fork(self, session_id: SessionId, *, key: str | None = None) -> Session:
        """Create a session with a copy of all messages; the same key again returns the same session."""
        return await self._http.post(build_path("session", session_id, "fork"), Session, {}, key=key)
