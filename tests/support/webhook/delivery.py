"""Deliveries to a waiting call, each signed by hand, and what a handler must make of them."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from asyncagents import ToolContext, async_tool
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.pending_tool import PendingToolCall, ToolResult
from asyncagents.domain.event import SessionIdle
from asyncagents.engine.tool import AnyTool, Pending
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import call, say
from asyncagents.server.http.messages import Pairs, Request, Response
from asyncagents.testing.inside import inside
from tests.support.http.asgi import TOKEN, build_application, call_application
from tests.support.runtime import Stage, open_stage
from tests.support.wait import PATIENCE

SCRIPT = {name: [[call("deploy")], [say("Shipped.")]] for name in ("ship", "ship too")}
RESULT, ERROR, WEBHOOK = "/async-tool/result", "/async-tool/error", "/async-tool/webhook"
PENDING = "/async-tool/pending"
MIB = 1024 * 1024
JSON = (("content-type", "application/json"),)


class WaitingService:
    """The other side: it was told the id and the secret of each call, in the order they were made."""

    def __init__(self, *, check: Callable[[ToolResult], bool] | None = None, **pending: Any) -> None:
        self.calls: list[tuple[str, str]] = []

        async def deploy(context: ToolContext) -> Pending:
            """Start a deployment."""
            self.calls.append((context.pending_id, context.secret))
            return Pending(**pending)

        self.tool: AnyTool = async_tool(validate_result=check)(deploy) if check else async_tool(deploy)


class DeliverySender:
    """A call that waits, and one of another session; what is sent for them, and what it was answered."""

    def __init__(self, at: Stage, service: WaitingService) -> None:
        self.stage = at
        self.tools = at.runtime.async_tools
        self._app = build_application(at.runtime)
        (self.id, self.secret), (self.other_id, self.other_secret) = service.calls

    @property
    def seconds(self) -> int:
        return SystemClock().now() // 1000

    async def send(self, request: Request) -> Response:
        """With the token, except where a signature has to do."""
        return await call_application(self._app, request, token=None if request.path == WEBHOOK else TOKEN)

    async def state(self) -> tuple[str, PendingToolCall, PendingToolCall, int]:
        """All that a delivery could change: the newest revision of the store says whether anything did."""
        cursor = await inside(self.stage.runtime).store.cursor()
        calls = await self.tools.get(self.id), await self.tools.get(self.other_id)
        return cursor, *calls, len(self.stage.model.requests)

    @property
    def body(self) -> bytes:
        return result_body(self.id)

    def build_webhook(self, headers: Pairs, body: bytes | None = None) -> Request:
        return Request(method="POST", path=WEBHOOK, headers=headers, body=self.body if body is None else body)

    def build_signed(self, body: bytes | None = None, **how: Any) -> Request:
        """By Standard Webhooks."""
        body = self.body if body is None else body
        return self.build_webhook(
            standard_headers(how.pop("secret", self.secret), body, self.seconds, **how), body
        )

    def build_plain(self, body: bytes | None = None, *, secret: str = "", **more: str) -> Request:
        """By the header of the source."""
        body = self.body if body is None else body
        headers = (
            ("X-Webhook-Signature", plain_signature((secret or self.secret).encode(), body)),
            *more.items(),
        )
        return self.build_webhook(headers, body)

    def build_result(self, body: bytes, path: str = RESULT) -> Request:
        return Request(method="POST", path=path, headers=JSON, body=body)


BuildRequest: TypeAlias = Callable[[DeliverySender], Request]


@asynccontextmanager
async def open_sender(
    data: Path, service: WaitingService | None = None, **more: Any
) -> AsyncIterator[DeliverySender]:
    """Two sessions wait for the service; the first is the stage's own."""
    service = service or WaitingService()
    async with open_stage(data, SCRIPT, tools=[service.tool], **more) as at:
        await at.prompt("ship")
        other = await at.runtime.create_session(directory=data)
        await at.runtime.prompt(other.id, "ship too")
        yield DeliverySender(at, service)


@asynccontextmanager
async def open_shared_sender(data: Path) -> AsyncIterator[DeliverySender]:
    """As `posting`, for many tests: a task of its own holds it, since each test is another."""
    ready, over = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def hold() -> None:
        async with open_sender(data) as post:
            ready.set_result(post)
            await over.wait()

    async with asyncio.timeout(PATIENCE):
        holding = asyncio.ensure_future(hold())
        await asyncio.wait((ready, holding), return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        await holding
    yield ready.result()
    over.set()
    await holding


def response_json(answer: Response) -> Any:
    return json.loads(answer.body)


def error_message(answer: Response) -> str:
    text = response_json(answer)["data"]["message"]
    assert isinstance(text, str)
    return text


async def assert_resumed_once(post: DeliverySender, result: str) -> None:
    """The session of the call went on, with this result, and asked the model once more."""
    async with asyncio.timeout(PATIENCE):
        await post.stage.listener.until(SessionIdle, lambda event: event.session_id == post.stage.session_id)
    told = [told.output for told in post.stage.request_messages() if isinstance(told, ToolTurn)]
    assert told == [result]
    assert len(post.stage.model.requests) == 3


def result_body(pending_id: str, output: str = "v2 is live") -> bytes:
    result = {"title": "Deployed", "output": output, "metadata": {"version": 2}}
    return json.dumps({"pendingID": pending_id, "result": result}).encode()


def error_body(pending_id: str) -> bytes:
    return json.dumps({"pendingID": pending_id, "error": "no route"}).encode()


def decode_secret(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def plain_signature(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def standard_headers(
    secret: str, body: bytes, seconds: int, *, shift: int = 0, key: bytes | None = None, id: str = "msg_1"
) -> Pairs:
    at = seconds + shift
    signed = hmac.new(
        decode_secret(secret) if key is None else key, f"{id}.{at}.".encode() + body, hashlib.sha256
    )
    signature = "v1," + base64.b64encode(signed.digest()).decode()
    return (("webhook-id", id), ("webhook-timestamp", str(at)), ("webhook-signature", signature))


def remove_header(request: Request, name: str) -> Request:
    kept = tuple(pair for pair in request.headers if pair[0].lower() != name)
    return Request(method=request.method, path=request.path, headers=kept, body=request.body)


def change_header(request: Request, name: str, change: Callable[[str], str]) -> Request:
    headers = tuple((key, change(value) if key.lower() == name else value) for key, value in request.headers)
    return Request(method=request.method, path=request.path, headers=headers, body=request.body)


def add_headers(request: Request, *more: tuple[str, str]) -> Request:
    headers = (*request.headers, *more)
    return Request(method=request.method, path=request.path, headers=headers, body=request.body)


def replace_body(request: Request, body: bytes) -> Request:
    return Request(method=request.method, path=request.path, headers=request.headers, body=body)


def _respell_body(post: DeliverySender) -> bytes:
    return json.dumps(json.loads(post.body), separators=(",", ":")).encode()


def _reorder_body(post: DeliverySender) -> bytes:
    return json.dumps(dict(reversed(json.loads(post.body).items()))).encode()


UNKNOWN = "tool_0123456789abABCDEFGHIJKLMN"
_SIGNATURE, _PLAIN = "webhook-signature", "x-webhook-signature"

FORGED: dict[str, BuildRequest] = {
    "unsigned": lambda post: post.build_webhook(()),
    "unsigned, no body": lambda post: post.build_webhook((), b""),
    "unsigned, unknown call": lambda post: post.build_webhook((), result_body(UNKNOWN)),
    "the secret as a token": lambda post: post.build_webhook((("authorization", f"Bearer {post.secret}"),)),
    "the secret as the signature": lambda post: post.build_webhook(((_PLAIN, post.secret),)),
    "empty signatures": lambda post: change_header(post.build_signed(), _SIGNATURE, lambda value: ""),
    "garbage": lambda post: change_header(post.build_signed(), _SIGNATURE, lambda value: "v1,\x00\udcff\xff"),
    "of a wrong key": lambda post: post.build_signed(key=b"wrong"),
    "of an empty key": lambda post: post.build_signed(key=b""),
    "of the undecoded secret": lambda post: post.build_signed(key=post.secret.encode()),
    "of the call's id": lambda post: post.build_signed(key=post.id.encode()),
    "of another call's secret": lambda post: post.build_signed(secret=post.other_secret),
    "naming another call": lambda post: post.build_signed(result_body(post.other_id)),
    "of another body": lambda post: replace_body(post.build_signed(), result_body(post.id, "v3")),
    "of an error, with a result": lambda post: replace_body(
        post.build_signed(error_body(post.id)), post.body
    ),
    "respelt": lambda post: replace_body(post.build_signed(), _respell_body(post)),
    "reordered": lambda post: replace_body(post.build_signed(), _reorder_body(post)),
    "one byte more": lambda post: replace_body(post.build_signed(), post.body + b"\n"),
    "one byte less": lambda post: replace_body(post.build_signed(post.body + b" "), post.body),
    "stale": lambda post: post.build_signed(shift=-310),
    "a year old": lambda post: post.build_signed(shift=-31_536_000),
    "of the future": lambda post: post.build_signed(shift=310),
    "stale, beside a good plain one": lambda post: add_headers(
        post.build_signed(shift=-310), *post.build_plain().headers
    ),
    "stale, by its other names": lambda post: add_headers(
        post.build_plain(),
        *((name.replace("webhook", "svix"), value) for name, value in post.build_signed(shift=-310).headers),
    ),
    "stale, given a new time": lambda post: change_header(
        post.build_signed(shift=-310), "webhook-timestamp", lambda value: str(post.seconds)
    ),
    "given another id": lambda post: change_header(post.build_signed(), "webhook-id", lambda value: "msg_2"),
    "an id with a dot": lambda post: post.build_signed(id="msg.1"),
    "without an id": lambda post: remove_header(post.build_signed(), "webhook-id"),
    "without a time": lambda post: remove_header(post.build_signed(), "webhook-timestamp"),
    "without a signature": lambda post: remove_header(post.build_signed(), _SIGNATURE),
    "an id beside a good plain one": lambda post: add_headers(post.build_plain(), ("webhook-id", "msg_1")),
    "two times": lambda post: add_headers(post.build_signed(), ("Webhook-Timestamp", str(post.seconds - 1))),
    "two ids": lambda post: add_headers(post.build_signed(), ("Webhook-Id", "msg_2")),
    "a time in words": lambda post: change_header(
        post.build_signed(), "webhook-timestamp", lambda value: "now"
    ),
    "a time in milliseconds": lambda post: change_header(
        post.build_signed(), "webhook-timestamp", lambda value: f"{value}000"
    ),
    "a time without end": lambda post: change_header(
        post.build_signed(), "webhook-timestamp", lambda value: "9" * 100_000
    ),
    "an id without end": lambda post: change_header(
        post.build_signed(), "webhook-id", lambda value: "m" * 100_000
    ),
    "signatures without end": lambda post: change_header(
        post.build_signed(), _SIGNATURE, lambda value: f"{value} " * 10_000
    ),
    "of an unknown version": lambda post: change_header(
        post.build_signed(), _SIGNATURE, lambda value: value.replace("v1,", "v1a,")
    ),
    "cut": lambda post: change_header(post.build_signed(), _SIGNATURE, lambda value: value[:-2]),
    "in capitals": lambda post: change_header(post.build_signed(), _SIGNATURE, str.upper),
    "in hex": lambda post: change_header(
        post.build_signed(), _SIGNATURE, lambda value: "v1," + base64.b64decode(value[3:]).hex()
    ),
    "plain, of a wrong key": lambda post: post.build_plain(secret="wrong"),
    "plain, of another call": lambda post: post.build_plain(secret=post.other_secret),
    "plain, naming another call": lambda post: post.build_plain(result_body(post.other_id)),
    "plain, of another body": lambda post: replace_body(post.build_plain(), result_body(post.id, "v3")),
    "plain, respelt": lambda post: replace_body(post.build_plain(), _respell_body(post)),
    "plain, cut": lambda post: change_header(post.build_plain(), _PLAIN, lambda value: value[:-1]),
    "plain, empty": lambda post: change_header(post.build_plain(), _PLAIN, lambda value: "sha256="),
    "plain, as sha1": lambda post: change_header(post.build_plain(), _PLAIN, lambda value: f"sha1={value}"),
    "plain, without end": lambda post: change_header(
        post.build_plain(), _PLAIN, lambda value: value * 10_000
    ),
    "plain, in base64": lambda post: change_header(
        post.build_plain(), _PLAIN, lambda value: base64.b64encode(bytes.fromhex(value)).decode()
    ),
    "signed for a call that is not": lambda post: post.build_signed(result_body(UNKNOWN)),
    "of another call, and malformed": lambda post: post.build_signed(
        b'{"pendingID":"%s"}' % post.other_id.encode()
    ),
}

MALFORMED: dict[str, Callable[[str], bytes]] = {
    "nothing": lambda call_id: b"",
    "a form": lambda call_id: f"pendingID={call_id}&error=x".encode(),
    "a list": lambda call_id: json.dumps([call_id]).encode(),
    "null": lambda call_id: b"null",
    "cut": lambda call_id: result_body(call_id)[:-1],
    "two bodies": lambda call_id: result_body(call_id) * 2,
    "latin-1": lambda call_id: result_body(call_id).replace(b"live", b"\xe9"),
    "utf-16": lambda call_id: result_body(call_id).decode().encode("utf-16"),
    "a mark before it": lambda call_id: b"\xef\xbb\xbf" + result_body(call_id),
    "no call": lambda call_id: b'{"error":"x"}',
    "a call as a number": lambda call_id: b'{"pendingID":7,"error":"x"}',
    "a call as null": lambda call_id: b'{"pendingID":null,"error":"x"}',
    "a call with a zero": lambda call_id: b'{"pendingID":"\\u0000","error":"x"}',
    "a call with half a character": lambda call_id: b'{"pendingID":"\\ud800","error":"x"}',
    "a call without end": lambda call_id: b'{"pendingID":"%s","error":"x"}' % (b"t" * 100_000),
    "neither": lambda call_id: b'{"pendingID":"%s"}' % call_id.encode(),
    "both": lambda call_id: b'{"pendingID":"%s","error":"x","result":{"output":"x"}}' % call_id.encode(),
    "an empty error": lambda call_id: b'{"pendingID":"%s","error":""}' % call_id.encode(),
    "an error as an object": lambda call_id: b'{"pendingID":"%s","error":{}}' % call_id.encode(),
    "a result as a text": lambda call_id: b'{"pendingID":"%s","result":"x"}' % call_id.encode(),
    "no output": lambda call_id: b'{"pendingID":"%s","result":{"title":"x"}}' % call_id.encode(),
    "an output as a number": lambda call_id: b'{"pendingID":"%s","result":{"output":1}}' % call_id.encode(),
    "a title as a list": lambda call_id: (
        b'{"pendingID":"%s","result":{"output":"","title":[]}}' % call_id.encode()
    ),
    "metadata as a text": lambda call_id: (
        b'{"pendingID":"%s","result":{"output":"","metadata":"x"}}' % call_id.encode()
    ),
    "an unknown field": lambda call_id: (
        b'{"pendingID":"%s","result":{"output":"","secret":"x"}}' % call_id.encode()
    ),
    "two calls": lambda call_id: b'{"pendingID":"tool_1","pendingID":"%s","error":"x"}' % call_id.encode(),
    "two outputs": lambda call_id: (
        b'{"pendingID":"%s","result":{"output":"a","output":"b"}}' % call_id.encode()
    ),
    "NaN": lambda call_id: result_body(call_id).replace(b'"version": 2', b'"version": NaN'),
    "infinity": lambda call_id: result_body(call_id).replace(b'"version": 2', b'"version": -Infinity'),
    "a number without end": lambda call_id: result_body(call_id).replace(
        b'"version": 2', b'"version": ' + b"9" * 9_000
    ),
    "a float without end": lambda call_id: result_body(call_id).replace(b'"version": 2', b'"version": 1e400'),
    "half a character": lambda call_id: result_body(call_id).replace(b"live", b"\\ud800"),
    "a zero": lambda call_id: result_body(call_id).replace(b"live", b"\\u0000"),
    "too deep": lambda call_id: result_body(call_id).replace(
        b'"version": 2', b'"version": ' + b"[" * 101 + b"]" * 101
    ),
    "without end": lambda call_id: result_body(call_id)[:-2] + b',"x":' + b"[" * 1_000_000,
    "a million pieces": lambda call_id: result_body(call_id).replace(
        b'"version": 2', b'"version": [' + b"1," * MIB + b"1]"
    ),
}
