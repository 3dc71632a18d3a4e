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
from tests.support.http.asgi import TOKEN, application, ask
from tests.support.runtime import Stage, stage
from tests.support.wait import PATIENCE

SCRIPT = {name: [[call("deploy")], [say("Shipped.")]] for name in ("ship", "ship too")}
RESULT, ERROR, WEBHOOK = "/async-tool/result", "/async-tool/error", "/async-tool/webhook"
PENDING = "/async-tool/pending"
MIB = 1024 * 1024
JSON = (("content-type", "application/json"),)


class Service:
    """The other side: it was told the id and the secret of each call, in the order they were made."""

    def __init__(self, *, check: Callable[[ToolResult], bool] | None = None, **pending: Any) -> None:
        self.told: list[tuple[str, str]] = []

        async def deploy(context: ToolContext) -> Pending:
            """Start a deployment."""
            self.told.append((context.pending_id, context.secret))
            return Pending(**pending)

        self.tool: AnyTool = async_tool(validate_result=check)(deploy) if check else async_tool(deploy)


class Post:
    """A call that waits, and one of another session; what is sent for them, and what it was answered."""

    def __init__(self, at: Stage, service: Service) -> None:
        self.stage = at
        self.tools = at.runtime.async_tools
        self._app = application(at.runtime)
        (self.id, self.secret), (self.other_id, self.other_secret) = service.told

    @property
    def seconds(self) -> int:
        return SystemClock().now() // 1000

    async def send(self, request: Request) -> Response:
        """With the token, except where a signature has to do."""
        return await ask(self._app, request, token=None if request.path == WEBHOOK else TOKEN)

    async def state(self) -> tuple[str, PendingToolCall, PendingToolCall, int]:
        """All that a delivery could change: the newest revision of the store says whether anything did."""
        cursor = await inside(self.stage.runtime).store.cursor()
        calls = await self.tools.get(self.id), await self.tools.get(self.other_id)
        return cursor, *calls, len(self.stage.model.requests)

    @property
    def body(self) -> bytes:
        return done(self.id)

    def webhook(self, headers: Pairs, body: bytes | None = None) -> Request:
        return Request(method="POST", path=WEBHOOK, headers=headers, body=self.body if body is None else body)

    def signed(self, body: bytes | None = None, **how: Any) -> Request:
        """By Standard Webhooks."""
        body = self.body if body is None else body
        return self.webhook(standard(how.pop("secret", self.secret), body, self.seconds, **how), body)

    def plainly(self, body: bytes | None = None, *, secret: str = "", **more: str) -> Request:
        """By the header of the source."""
        body = self.body if body is None else body
        headers = (("X-Webhook-Signature", hexed((secret or self.secret).encode(), body)), *more.items())
        return self.webhook(headers, body)

    def result(self, body: bytes, path: str = RESULT) -> Request:
        return Request(method="POST", path=path, headers=JSON, body=body)


Make: TypeAlias = Callable[[Post], Request]


@asynccontextmanager
async def posting(data: Path, service: Service | None = None, **more: Any) -> AsyncIterator[Post]:
    """Two sessions wait for the service; the first is the stage's own."""
    service = service or Service()
    async with stage(data, SCRIPT, tools=[service.tool], **more) as at:
        await at.prompt("ship")
        other = await at.runtime.create_session(directory=data)
        await at.runtime.prompt(other.id, "ship too")
        yield Post(at, service)


@asynccontextmanager
async def kept_posting(data: Path) -> AsyncIterator[Post]:
    """As `posting`, for many tests: a task of its own holds it, since each test is another."""
    ready, over = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def hold() -> None:
        async with posting(data) as post:
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


def said(answer: Response) -> Any:
    return json.loads(answer.body)


def message(answer: Response) -> str:
    text = said(answer)["data"]["message"]
    assert isinstance(text, str)
    return text


async def resumed_once(post: Post, result: str) -> None:
    """The session of the call went on, with this result, and asked the model once more."""
    async with asyncio.timeout(PATIENCE):
        await post.stage.ears.until(SessionIdle, lambda event: event.session_id == post.stage.session_id)
    told = [told.output for told in post.stage.told() if isinstance(told, ToolTurn)]
    assert (told, len(post.stage.model.requests)) == ([result], 3)


def done(pending_id: str, output: str = "v2 is live") -> bytes:
    result = {"title": "Deployed", "output": output, "metadata": {"version": 2}}
    return json.dumps({"pendingID": pending_id, "result": result}).encode()


def failed(pending_id: str) -> bytes:
    return json.dumps({"pendingID": pending_id, "error": "no route"}).encode()


def key_of(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix("whsec_"))


def hexed(key: bytes, body: bytes) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def standard(
    secret: str, body: bytes, seconds: int, *, shift: int = 0, key: bytes | None = None, id: str = "msg_1"
) -> Pairs:
    at = seconds + shift
    signed = hmac.new(key_of(secret) if key is None else key, f"{id}.{at}.".encode() + body, hashlib.sha256)
    signature = "v1," + base64.b64encode(signed.digest()).decode()
    return (("webhook-id", id), ("webhook-timestamp", str(at)), ("webhook-signature", signature))


def without(request: Request, name: str) -> Request:
    kept = tuple(pair for pair in request.headers if pair[0].lower() != name)
    return Request(method=request.method, path=request.path, headers=kept, body=request.body)


def changed(request: Request, name: str, change: Callable[[str], str]) -> Request:
    headers = tuple((key, change(value) if key.lower() == name else value) for key, value in request.headers)
    return Request(method=request.method, path=request.path, headers=headers, body=request.body)


def added(request: Request, *more: tuple[str, str]) -> Request:
    headers = (*request.headers, *more)
    return Request(method=request.method, path=request.path, headers=headers, body=request.body)


def bodied(request: Request, body: bytes) -> Request:
    return Request(method=request.method, path=request.path, headers=request.headers, body=body)


def _respelt(post: Post) -> bytes:
    return json.dumps(json.loads(post.body), separators=(",", ":")).encode()


def _reordered(post: Post) -> bytes:
    return json.dumps(dict(reversed(json.loads(post.body).items()))).encode()


UNKNOWN = "tool_0123456789abABCDEFGHIJKLMN"
_SIGNATURE, _PLAIN = "webhook-signature", "x-webhook-signature"

FORGED: dict[str, Make] = {
    "unsigned": lambda post: post.webhook(()),
    "unsigned, no body": lambda post: post.webhook((), b""),
    "unsigned, unknown call": lambda post: post.webhook((), done(UNKNOWN)),
    "the secret as a token": lambda post: post.webhook((("authorization", f"Bearer {post.secret}"),)),
    "the secret as the signature": lambda post: post.webhook(((_PLAIN, post.secret),)),
    "empty signatures": lambda post: changed(post.signed(), _SIGNATURE, lambda value: ""),
    "garbage": lambda post: changed(post.signed(), _SIGNATURE, lambda value: "v1,\x00\udcff\xff"),
    "of a wrong key": lambda post: post.signed(key=b"wrong"),
    "of an empty key": lambda post: post.signed(key=b""),
    "of the undecoded secret": lambda post: post.signed(key=post.secret.encode()),
    "of the call's id": lambda post: post.signed(key=post.id.encode()),
    "of another call's secret": lambda post: post.signed(secret=post.other_secret),
    "naming another call": lambda post: post.signed(done(post.other_id)),
    "of another body": lambda post: bodied(post.signed(), done(post.id, "v3")),
    "of an error, with a result": lambda post: bodied(post.signed(failed(post.id)), post.body),
    "respelt": lambda post: bodied(post.signed(), _respelt(post)),
    "reordered": lambda post: bodied(post.signed(), _reordered(post)),
    "one byte more": lambda post: bodied(post.signed(), post.body + b"\n"),
    "one byte less": lambda post: bodied(post.signed(post.body + b" "), post.body),
    "stale": lambda post: post.signed(shift=-310),
    "a year old": lambda post: post.signed(shift=-31_536_000),
    "of the future": lambda post: post.signed(shift=310),
    "stale, beside a good plain one": lambda post: added(post.signed(shift=-310), *post.plainly().headers),
    "stale, by its other names": lambda post: added(
        post.plainly(),
        *((name.replace("webhook", "svix"), value) for name, value in post.signed(shift=-310).headers),
    ),
    "stale, given a new time": lambda post: changed(
        post.signed(shift=-310), "webhook-timestamp", lambda value: str(post.seconds)
    ),
    "given another id": lambda post: changed(post.signed(), "webhook-id", lambda value: "msg_2"),
    "an id with a dot": lambda post: post.signed(id="msg.1"),
    "without an id": lambda post: without(post.signed(), "webhook-id"),
    "without a time": lambda post: without(post.signed(), "webhook-timestamp"),
    "without a signature": lambda post: without(post.signed(), _SIGNATURE),
    "an id beside a good plain one": lambda post: added(post.plainly(), ("webhook-id", "msg_1")),
    "two times": lambda post: added(post.signed(), ("Webhook-Timestamp", str(post.seconds - 1))),
    "two ids": lambda post: added(post.signed(), ("Webhook-Id", "msg_2")),
    "a time in words": lambda post: changed(post.signed(), "webhook-timestamp", lambda value: "now"),
    "a time in milliseconds": lambda post: changed(
        post.signed(), "webhook-timestamp", lambda value: f"{value}000"
    ),
    "a time without end": lambda post: changed(
        post.signed(), "webhook-timestamp", lambda value: "9" * 100_000
    ),
    "an id without end": lambda post: changed(post.signed(), "webhook-id", lambda value: "m" * 100_000),
    "signatures without end": lambda post: changed(
        post.signed(), _SIGNATURE, lambda value: f"{value} " * 10_000
    ),
    "of an unknown version": lambda post: changed(
        post.signed(), _SIGNATURE, lambda value: value.replace("v1,", "v1a,")
    ),
    "cut": lambda post: changed(post.signed(), _SIGNATURE, lambda value: value[:-2]),
    "in capitals": lambda post: changed(post.signed(), _SIGNATURE, str.upper),
    "in hex": lambda post: changed(
        post.signed(), _SIGNATURE, lambda value: "v1," + base64.b64decode(value[3:]).hex()
    ),
    "plain, of a wrong key": lambda post: post.plainly(secret="wrong"),
    "plain, of another call": lambda post: post.plainly(secret=post.other_secret),
    "plain, naming another call": lambda post: post.plainly(done(post.other_id)),
    "plain, of another body": lambda post: bodied(post.plainly(), done(post.id, "v3")),
    "plain, respelt": lambda post: bodied(post.plainly(), _respelt(post)),
    "plain, cut": lambda post: changed(post.plainly(), _PLAIN, lambda value: value[:-1]),
    "plain, empty": lambda post: changed(post.plainly(), _PLAIN, lambda value: "sha256="),
    "plain, as sha1": lambda post: changed(post.plainly(), _PLAIN, lambda value: f"sha1={value}"),
    "plain, without end": lambda post: changed(post.plainly(), _PLAIN, lambda value: value * 10_000),
    "plain, in base64": lambda post: changed(
        post.plainly(), _PLAIN, lambda value: base64.b64encode(bytes.fromhex(value)).decode()
    ),
    "signed for a call that is not": lambda post: post.signed(done(UNKNOWN)),
    "of another call, and malformed": lambda post: post.signed(
        b'{"pendingID":"%s"}' % post.other_id.encode()
    ),
}

MALFORMED: dict[str, Callable[[str], bytes]] = {
    "nothing": lambda call_id: b"",
    "a form": lambda call_id: f"pendingID={call_id}&error=x".encode(),
    "a list": lambda call_id: json.dumps([call_id]).encode(),
    "null": lambda call_id: b"null",
    "cut": lambda call_id: done(call_id)[:-1],
    "two bodies": lambda call_id: done(call_id) * 2,
    "latin-1": lambda call_id: done(call_id).replace(b"live", b"\xe9"),
    "utf-16": lambda call_id: done(call_id).decode().encode("utf-16"),
    "a mark before it": lambda call_id: b"\xef\xbb\xbf" + done(call_id),
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
    "NaN": lambda call_id: done(call_id).replace(b'"version": 2', b'"version": NaN'),
    "infinity": lambda call_id: done(call_id).replace(b'"version": 2', b'"version": -Infinity'),
    "a number without end": lambda call_id: done(call_id).replace(
        b'"version": 2', b'"version": ' + b"9" * 9_000
    ),
    "a float without end": lambda call_id: done(call_id).replace(b'"version": 2', b'"version": 1e400'),
    "half a character": lambda call_id: done(call_id).replace(b"live", b"\\ud800"),
    "a zero": lambda call_id: done(call_id).replace(b"live", b"\\u0000"),
    "too deep": lambda call_id: done(call_id).replace(
        b'"version": 2', b'"version": ' + b"[" * 101 + b"]" * 101
    ),
    "without end": lambda call_id: done(call_id)[:-2] + b',"x":' + b"[" * 1_000_000,
    "a million pieces": lambda call_id: done(call_id).replace(
        b'"version": 2', b'"version": [' + b"1," * MIB + b"1]"
    ),
}
