"""Rules of the Agent Client Protocol that its schema cannot express: order, ids, capabilities."""

from collections import Counter
from typing import Any

from tests.support.acp.schema import Frame, FrameCheck, ProtocolSchema, Side

OPENING = {"session/new", "session/load", "session/resume"}
ENDING = {"session/close", "session/delete"}
PROGRESS = ("pending", "in_progress", "completed", "failed")
ENDED = PROGRESS[2:]
NEEDS = {
    "notice": ("session", "notices"),
    "compaction_update": ("session", "compaction"),
    "compaction_summary_chunk": ("session", "compaction"),
    "subagent_update": ("subagents",),
    "session_message": ("subagents",),
    "session_message_chunk": ("subagents",),
    "plan_update": ("plan",),
    "plan_removed": ("plan",),
    "elicitation/create": ("elicitation", "form"),
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/create": ("terminal",),
}
"""What an agent sends only to a client that has a capability."""


class SessionRules:
    """What was sent of one session on one connection, since the client opened it."""

    def __init__(self) -> None:
        self.openings = 1
        """How often the client has asked for it; each time the calls may begin once more."""
        self._begun: Counter[str] = Counter()
        self.calls: dict[str, str] = {}
        """The last status of each call."""
        self.roles: dict[str, str] = {}
        """Whose message each message id is."""

    def find_problems(self, update: Frame) -> list[str]:
        match update["sessionUpdate"]:
            case "tool_call" | "tool_call_update" as kind:
                return self._call_problems(kind, update)
            case "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk" as kind:
                return self._chunk_problems(kind, update)
            case _:
                return []

    def _call_problems(self, kind: str, update: Frame) -> list[str]:
        call_id = update["toolCallId"]
        before, status = self.calls.get(call_id), update.get("status") or ""
        self.calls[call_id] = status or before or "pending"
        self._begun[call_id] += kind == "tool_call"
        if kind == "tool_call" and self._begun[call_id] > self.openings:
            return [f"the call {call_id} begins a second time"]
        if kind == "tool_call_update" and before is None:
            return [f"the call {call_id} is updated before it begins"]
        if kind == "tool_call":
            return []
        if before in ENDED and status not in ("", before):
            return [f"the call {call_id} goes from {before} to {status}"]
        if before == "in_progress" and status == "pending":
            return [f"the call {call_id} goes back to {status}"]
        return []

    def _chunk_problems(self, kind: str, update: Frame) -> list[str]:
        message_id, role = update.get("messageId"), kind.split("_", 1)[0]
        if message_id is None:
            return [f"a {kind} has no messageId"]
        before = self.roles.setdefault(message_id, role)
        return [] if before == role else [f"the message {message_id} is of the {before} and of the {role}"]


class ProtocolRules:
    """Follows the frames of one connection and names broken rules. Those of the agent fit the schema."""

    def __init__(self) -> None:
        self._asked: dict[tuple[Side, Any], Frame] = {}
        self._capabilities: Frame | None = None
        self._initialized = False
        self._sessions: dict[str, SessionRules] = {}
        self._cancelled: dict[str, int] = {}
        """How many requests the client had sent before it cancelled the turn of a session."""
        self._sent: dict[Any, int] = {}
        """The number of each request of the client."""
        self._read = 0
        """Requests of the client that the agent has read: it reads in order."""

    def find_problems(self, sender: Side, frame: Frame) -> list[str]:
        if "method" not in frame:
            return self._take_response(sender, frame)
        if "id" in frame:
            self._asked[sender, frame["id"]] = frame
            if sender == "client":
                self._sent[str(frame["id"])] = len(self._sent) + 1
        params = frame.get("params") or {}
        if sender == "agent":
            return self._agent_problems(frame["method"], params)
        if isinstance(params, dict):
            self._take_client_call(frame["method"], params)
        return []

    def _take_client_call(self, method: str, params: Frame) -> None:
        session_id = str(params.get("sessionId"))
        if method == "initialize":
            self._capabilities = params.get("clientCapabilities") or {}
        if method in ("session/load", "session/resume"):
            self._open_session(session_id)
        if method == "session/cancel":
            self._cancelled[session_id] = len(self._sent)
        if method == "session/prompt":
            self._cancelled.pop(session_id, None)

    def _open_session(self, session_id: str) -> None:
        """Take a request for a session; one that is open goes on until the agent has read the request."""
        if session_id in self._sessions:
            self._sessions[session_id].openings += 1
        else:
            self._sessions[session_id] = SessionRules()

    def _take_response(self, sender: Side, frame: Frame) -> list[str]:
        other: Side = "client" if sender == "agent" else "agent"
        request = self._asked.pop((other, frame.get("id")), None)
        if request is None or "result" not in frame:
            return []
        method, params, result = request["method"], request.get("params") or {}, frame["result"]
        session_id = str(params.get("sessionId"))
        if method == "initialize":
            self._initialized = True
        if method == "session/new":
            self._sessions[result["sessionId"]] = SessionRules()
        if method in ENDING and not self._is_opening(session_id):
            self._sessions.pop(session_id, None)
        if method == "session/prompt" and session_id in self._cancelled:
            cancel_is_read = self._cancelled.pop(session_id) < self._read
            if cancel_is_read and result["stopReason"] != "cancelled":
                return [f"a cancelled prompt ended with {result['stopReason']}"]
        if sender == "agent":
            self._read = max(self._read, self._sent.get(str(frame["id"]), 0))
        return []

    def _is_opening(self, session_id: str) -> bool:
        """Whether the client has asked for the session again."""
        opening = [each.get("params") for each in self._asked.values() if each["method"] in OPENING]
        return any(isinstance(each, dict) and each.get("sessionId") == session_id for each in opening)

    def _agent_problems(self, method: str, params: Frame) -> list[str]:
        if not self._initialized:
            return [f"{method} was sent before initialize was answered"]
        if method == "session/update":
            return self._update_problems(params["sessionId"], params["update"])
        found = self._capability_problems(method)
        if "sessionId" in params:
            found += self._session_problems(method, params["sessionId"])
        if method == "session/request_permission":
            found += self._permission_problems(params)
        return found

    def _update_problems(self, session_id: str, update: Frame) -> list[str]:
        kind = update["sessionUpdate"]
        found = self._capability_problems(kind) + self._session_problems(kind, session_id)
        if kind == "subagent_update":
            self._sessions.setdefault(update["sessionId"], SessionRules())
        session = self._sessions.get(session_id)
        return found if session is None else found + session.find_problems(update)

    def _session_problems(self, what: str, session_id: str) -> list[str]:
        known = session_id in self._sessions
        return [] if known else [f"{what} is for the session {session_id}, which this client does not have"]

    def _permission_problems(self, params: Frame) -> list[str]:
        call = params["toolCall"]
        session = self._sessions.get(params["sessionId"])
        if session is None or call["toolCallId"] in session.calls or call.get("title"):
            return []
        return [f"a permission is asked for the unknown call {call['toolCallId']} without a title"]

    def _capability_problems(self, what: str) -> list[str]:
        held: Any = self._capabilities
        for name in NEEDS.get(what, ()):
            held = held.get(name) if isinstance(held, dict) else None
        missing = held is None or held is False
        return [f"{what} was sent, but the client has no {'.'.join(NEEDS[what])}"] if missing else []


class ConnectionCheck:
    """Checks the frames of one connection in both directions, by the schema and by the rules."""

    def __init__(self, schema: ProtocolSchema) -> None:
        self._frames = FrameCheck(schema)
        self._rules = ProtocolRules()

    def find_problems(self, sender: Side, frame: Any) -> list[str]:
        """What is wrong with the next frame that a side sent."""
        found = self._frames.find_problems(sender, frame)
        if not isinstance(frame, dict) or (sender == "agent" and found):
            return found
        return found + self._rules.find_problems(sender, frame)

    def open_requests(self, sender: Side) -> list[str]:
        """The methods of the requests of a side that have no response so far."""
        return self._frames.open_requests(sender)
