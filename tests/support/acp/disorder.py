"""Frames that a client must not send, drawn by a seed: wrong parameters, wrong order, wrong answers."""

import json
from random import Random
from typing import Any

from tests.support.acp.client import CANCELLED, AcpClient
from tests.support.acp.schema import Frame

PROMPTS = ("work", "launch", "fan out", "go on", "fail", "anything", "/init", "")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 2**70, "", "x", "\x00", "🙂" * 10, "../..", "/no/such/folder", [], {}),
    *([None], {"a": {"b": [1]}}, [[[[[]]]]], "x" * 100_000),
)
LINES = (
    *(
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"\x00",
        b'{"jsonrpc":"2.0"}',
        b"[" * 50_000,
        b"Content-Length: 9",
    ),
    *(b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', b'{"id":1.5,"method":"session/list"}'),
    *(b'{"id":null,"method":"session/list"}', b'{"method":7}', b'{"id":"never sent","result":{}}'),
    *(b'{"id":77777,"error":"what?"}', b'[{"id":1,"method":"session/list"}]', b"{" + b" " * 200_000 + b"}"),
)
KINDS = (
    *(
        "initialize",
        "authenticate",
        "logout",
        "session/list",
        "session/new",
        "session/load",
        "session/resume",
    ),
    *("session/prompt", "session/prompt", "session/prompt", "session/set_mode", "session/set_config_option"),
    *(
        "session/close",
        "session/delete",
        "session/fork",
        "session/dance",
        "_asyncagents/dance",
        "",
        "x" * 1_000,
    ),
)
META = {"sessionId": "ses_evil", "session_id": "ses_evil", "cwd": "/evil", "mcpServers": "evil"}


class Disorder:
    """Draws what a client sends next, and how it answers."""

    def __init__(self, seed: int, client: AcpClient, directory: str) -> None:
        self._random = Random(seed)
        self._client = client
        self._directory = directory
        self._count = 0
        client.policy = self._answer

    def send_next(self) -> None:
        match self._random.randrange(10):
            case 0:
                self._client.send_bytes(self._random.choice(LINES) + b"\n")
            case 1:
                self._client.notify("session/cancel", **self._damage(self._session()))
            case 2:
                known: Any = self._random.choice([1, self._count, f"r{self._count}", None, {}])
                self._client.notify("$/cancel_request", requestId=known)
            case _:
                self._send_request()

    def _send_request(self) -> None:
        self._count += 1
        method = self._random.choice(KINDS)
        frame: Frame = {"jsonrpc": "2.0", "id": f"r{self._count}", "method": method}
        params = self._damage(self._params(method))
        if self._random.randrange(20):
            frame["params"] = params if self._random.randrange(20) else self._random.choice(VALUES)
        self._client.send(frame)

    def _params(self, method: str) -> Frame:
        place = {"cwd": self._directory, "mcpServers": []}
        match method:
            case "initialize":
                return {"protocolVersion": 1, "clientCapabilities": {}}
            case "session/new":
                return place
            case "session/load" | "session/resume":
                return {**self._session(), **place}
            case "session/prompt":
                text = {"type": "text", "text": self._random.choice(PROMPTS)}
                return {**self._session(), "prompt": [text]}
            case "session/set_mode":
                return {**self._session(), "modeId": self._random.choice(("plan", "build", "dance"))}
            case "session/set_config_option":
                option = self._random.choice(("agent", "model", "effort", "dance"))
                return {
                    **self._session(),
                    "configId": option,
                    "value": self._random.choice(("plan", "local/m")),
                }
            case "session/list":
                return {"cwd": self._directory}
            case _:
                return self._session()

    def _session(self) -> Frame:
        """A session that the client was given, mostly."""
        results = (each.frame.get("result") for each in self._client.frames if each.sender == "agent")
        known = [each["sessionId"] for each in results if isinstance(each, dict) and "sessionId" in each]
        return {"sessionId": self._random.choice((*known, *known, *known, "ses_0", "", "💥"))}

    def _damage(self, params: Frame) -> Frame:
        """Change one parameter in half of the cases; `_meta` must never matter."""
        damaged = json.loads(json.dumps(params))
        keys = list(params)
        match self._random.randrange(10):
            case 0 if keys:
                del damaged[self._random.choice(keys)]
            case 1 | 2 if keys:
                damaged[self._random.choice(keys)] = self._random.choice(VALUES)
            case 3:
                damaged["unknown"] = self._random.choice(VALUES)
            case 4:
                damaged["_meta"] = META
            case _:
                pass
        return dict(damaged)

    def _answer(self, request: Frame) -> Frame | None:
        """Answer permissions rightly, wrongly or not at all."""
        options = request["params"].get("options") or [{"optionId": "?"}]
        chosen = self._random.choice(options)["optionId"]
        wrong: Any = self._random.choice(VALUES)
        return self._random.choice(
            (
                {"outcome": {"outcome": "selected", "optionId": chosen}},
                {"outcome": {"outcome": "selected", "optionId": chosen}},
                CANCELLED,
                {"outcome": wrong},
                {"outcome": {"outcome": "selected", "optionId": wrong}},
                None,
            )
        )
