"""The async-tool API over real HTTP: every route of the source, and every status that it promises."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from asyncagents import ToolContext, async_tool
from asyncagents.config.config import AsyncToolsConfig
from asyncagents.domain.call.incoming_result import MOST_BYTES
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.domain.event import SessionIdle
from asyncagents.engine.tool import Pending
from asyncagents.llm.model import ToolTurn
from asyncagents.server.rate_limit import BURST
from tests.support.http.client import HttpClient, Response
from tests.support.http.server import serve_runtime
from tests.support.runtime import Stage, open_stage
from tests.support.wait import PATIENCE, wait_until
from tests.support.webhook.delivery import (
    ERROR,
    PENDING,
    RESULT,
    SCRIPT,
    UNKNOWN,
    WEBHOOK,
    WaitingService,
    error_body,
    plain_signature,
    result_body,
    standard_headers,
)

JSON = {"content-type": "application/json"}


class Site(Struct, frozen=True):
    """A call that waits, and the server that takes its result."""

    stage: Stage
    caller: HttpClient
    id: str
    secret: str

    async def post(self, path: str, body: bytes | BytesIO | AsyncIterator[bytes], **headers: str) -> Response:
        """With the token."""
        return await self.caller.request(
            "POST", path, data=body, headers={**JSON, **self.caller.authorization, **headers}
        )

    async def webhook(self, body: bytes | BytesIO, **headers: str) -> Response:
        """Without one."""
        return await self.caller.request("POST", WEBHOOK, data=body, headers=headers)

    async def get(self, path: str) -> Response:
        return await self.caller.request("GET", path, headers=self.caller.authorization)

    async def cancel(self, id: str) -> Response:
        return await self.caller.request("DELETE", f"{PENDING}/{id}", headers=self.caller.authorization)

    async def went_on(self) -> list[str]:
        """The session has gone on with these results."""
        async with asyncio.timeout(PATIENCE):
            await self.stage.listener.until(SessionIdle)
        return [told.output for told in self.stage.request_messages() if isinstance(told, ToolTurn)]


@asynccontextmanager
async def waiting(data: Path, service: WaitingService | None = None) -> AsyncIterator[Site]:
    service = service or WaitingService()
    async with (
        open_stage(data, SCRIPT, tools=[service.tool]) as at,
        serve_runtime(at.runtime, data) as caller,
    ):
        await at.prompt("ship")
        yield Site(at, caller, *service.calls[0])


def refusal(told: Response) -> tuple[int, str, str]:
    """Every refusal is JSON of one shape."""
    assert told.headers["content-type"] == "application/json"
    assert set(told.json) == {"name", "data"}
    assert set(told.json["data"]) == {"message"}
    return told.status, told.json["name"], told.json["data"]["message"]


@pytest.mark.spec("P-03")
async def test_200_a_result_is_submitted_and_the_session_goes_on(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        told = await site.post(RESULT, result_body(site.id))
        results = await site.went_on()

    assert told.status == 200
    assert told.headers["content-type"] == "application/json"
    assert told.json["id"] == site.id
    assert told.json["status"] == "completed"
    assert told.json["result"] == {"title": "Deployed", "output": "v2 is live", "metadata": {"version": 2}}
    assert results == ["v2 is live"]
    assert site.secret not in told.body.decode()


@pytest.mark.spec("P-03")
async def test_200_an_error_is_submitted_and_the_session_goes_on(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        told = await site.post(ERROR, error_body(site.id))
        results = await site.went_on()

    assert told.status == 200
    assert told.json["status"] == "failed"
    assert told.json["error"] == "no route"
    assert results == ["no route"]


@pytest.mark.spec("P-03")
@pytest.mark.parametrize("signing", ["X-Webhook-Signature", "Standard Webhooks"])
async def test_200_a_webhook_needs_its_signature_and_no_token(tmp_path: Path, signing: str) -> None:
    async with waiting(tmp_path) as site:
        body = result_body(site.id)
        now = site.stage.runtime._clock.now() // 1000
        plain = {signing: plain_signature(site.secret.encode(), body)}
        headers = plain if signing.startswith("X-") else dict(standard_headers(site.secret, body, now))
        told, again = await site.webhook(body, **headers), await site.webhook(body, **headers)
        results = await site.went_on()

    assert told.status == 200
    assert told.json == {"pendingID": site.id, "status": "completed"}
    assert again.status == 200
    assert again.body == told.body
    assert results == ["v2 is live"]


@pytest.mark.spec("P-03")
async def test_200_a_pending_call_is_listed_and_shown(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        listed, one = await site.get(PENDING), await site.get(f"{PENDING}/{site.id}")

    assert listed.status == 200
    assert one.status == 200
    assert listed.json == [one.json]
    assert one.json["id"] == site.id
    assert one.json["status"] == "waiting"
    assert one.json["tool"] == "deploy"
    assert site.secret not in (listed.body + one.body).decode()


@pytest.mark.spec("P-03")
async def test_200_a_call_is_cancelled(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        told = await site.cancel(site.id)
        results = await site.went_on()

    assert told.status == 200
    assert told.json["status"] == "failed"
    assert told.json["error"] == "cancelled"
    assert results == ["cancelled"]


@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (RESULT, b"{"),
        (RESULT, b"[]"),
        (RESULT, b""),
        (RESULT, b'{"pendingID": 7, "result": {"output": "x"}}'),
        (RESULT, b'{"pendingID": "tool_1", "result": {}}'),
        (RESULT, b'{"pendingID": "tool_1", "error": "x"}'),
        (ERROR, b'{"pendingID": "tool_1"}'),
        (ERROR, b'{"pendingID": "tool_1", "result": {"output": "x"}}'),
        (f"{PENDING}?limit=0", None),
        (f"{PENDING}?status=lost", None),
        (f"{PENDING}?what=ever", None),
    ],
)
async def test_400_malformed(tmp_path: Path, path: str, body: bytes | None) -> None:
    async with waiting(tmp_path) as site:
        told = await (site.get(path) if body is None else site.post(path, body))
        left = await site.get(f"{PENDING}/{site.id}")

    assert refusal(told)[:2] == (400, "BadRequest")
    assert left.json["status"] == "waiting"


@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    "proof", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic d3Jvbmc6eA=="}]
)
async def test_401_without_the_token(tmp_path: Path, proof: dict[str, str]) -> None:
    async with waiting(tmp_path) as site:
        ask, headers = site.caller.request, {**JSON, **proof}
        told = [
            await ask("POST", RESULT, data=result_body(site.id), headers=headers),
            await ask("POST", ERROR, data=error_body(site.id), headers=headers),
            await ask("GET", PENDING, headers=proof),
            await ask("GET", f"{PENDING}/{site.id}", headers=proof),
            await ask("DELETE", f"{PENDING}/{site.id}", headers=proof),
        ]
        left = await site.get(f"{PENDING}/{site.id}")

    assert {refusal(each)[:2] for each in told} == {(401, "UnauthorizedError")}
    assert all("www-authenticate" in each.headers for each in told)
    assert left.json["status"] == "waiting"


@pytest.mark.spec("P-03")
async def test_401_a_webhook_that_is_not_signed_whether_its_call_is_known_or_not(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        body = result_body(site.id)
        told = [
            await site.webhook(body),
            await site.webhook(body, **site.caller.authorization),
            await site.webhook(body, **{"x-webhook-signature": "0" * 64}),
            await site.webhook(
                result_body(UNKNOWN),
                **{"x-webhook-signature": plain_signature(b"guess", result_body(UNKNOWN))},
            ),
        ]
        left = await site.get(f"{PENDING}/{site.id}")

    assert {refusal(each)[:2] for each in told} == {(401, "UnauthorizedError")}
    assert left.json["status"] == "waiting"


@pytest.mark.spec("P-03")
async def test_404_a_call_that_is_unknown_or_of_a_deleted_session(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        unknown = [
            await site.post(RESULT, result_body(UNKNOWN)),
            await site.post(ERROR, error_body(UNKNOWN)),
            await site.get(f"{PENDING}/{UNKNOWN}"),
            await site.cancel(UNKNOWN),
        ]
        await site.stage.runtime.delete_session(site.stage.session_id)
        signature = plain_signature(site.secret.encode(), result_body(site.id))
        gone = [
            await site.post(RESULT, result_body(site.id)),
            await site.get(f"{PENDING}/{site.id}"),
            await site.get(f"{PENDING}?sessionID={site.stage.session_id}"),
            await site.webhook(result_body(site.id), **{"x-webhook-signature": signature}),
        ]

    assert {refusal(told)[:2] for told in unknown + gone} == {(404, "NotFoundError")}


@pytest.mark.spec("P-03")
async def test_409_a_call_settled_otherwise_and_the_message_names_its_result(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        first = await site.post(RESULT, result_body(site.id))
        await site.went_on()
        again = await site.post(RESULT, result_body(site.id))
        other = [
            await site.post(RESULT, result_body(site.id, "v3")),
            await site.post(ERROR, error_body(site.id)),
            await site.cancel(site.id),
        ]

    assert again.status == 200
    assert again.body == first.body
    assert {refusal(told)[:2] for told in other} == {(409, "ConflictError")}
    assert all("v2 is live" in refusal(told)[2] for told in other)


@pytest.mark.spec("P-03")
async def test_422_refused_by_validate_result_and_the_call_still_waits(tmp_path: Path) -> None:
    def is_large(result: ToolResult) -> bool:
        return len(result.output) > 5

    async with waiting(tmp_path, WaitingService(check=is_large)) as site:
        small = result_body(site.id, "v2")
        told = await site.post(RESULT, small)
        signed = await site.webhook(
            small, **{"x-webhook-signature": plain_signature(site.secret.encode(), small)}
        )
        left = await site.get(f"{PENDING}/{site.id}")
        taken = await site.post(RESULT, result_body(site.id))

    assert {refusal(told)[:2], refusal(signed)[:2]} == {(422, "ResultRefusedError")}
    assert left.json["status"] == "waiting"
    assert taken.status == 200


@pytest.mark.spec("P-03", "P-10")
async def test_429_too_many_webhooks_get_retry_after_and_other_routes_answer(
    tmp_path: Path,
) -> None:
    async with waiting(tmp_path) as site:
        body = result_body(UNKNOWN)
        told = await asyncio.gather(*(site.webhook(body) for _ in range(3 * BURST)))
        limited = [each for each in told if each.status == 429]
        looked = await site.get(PENDING)
        again = await _until_let(site, body)

    assert {each.status for each in told} == {401, 429}
    assert {refusal(each)[1] for each in limited} == {"TooManyRequestsError"}
    assert all(int(each.headers["retry-after"]) >= 1 for each in limited)
    assert looked.status == 200
    assert again.status == 401


async def _until_let(site: Site, body: bytes) -> Response:
    async def look() -> Response | None:
        told = await site.webhook(body)
        return told if told.status != 429 else None

    return await wait_until(look)


@pytest.mark.spec("P-10", "P-03")
async def test_413_a_result_has_at_most_ten_mebibytes(tmp_path: Path) -> None:
    async with waiting(tmp_path) as site:
        frame = len(result_body(site.id, ""))
        largest = result_body(site.id, "x" * (MOST_BYTES - frame))
        assert len(largest) == MOST_BYTES == 10 * 1024 * 1024
        told = [
            await site.post(RESULT, BytesIO(largest + b" ")),
            await site.post(RESULT, _pieces(largest + b" ")),
            await site.post(ERROR, BytesIO(largest + b" ")),
            await site.webhook(BytesIO(largest + b" ")),
        ]
        left = await site.get(f"{PENDING}/{site.id}")
        taken = await site.post(RESULT, _pieces(largest))

    assert {refusal(each)[:2] for each in told} == {(413, "PayloadTooLargeError")}
    assert left.json["status"] == "waiting"
    assert taken.status == 200
    assert len(taken.json["result"]["output"]) == MOST_BYTES - frame


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """Sent in chunks, so that nothing says beforehand how much it is."""
    for at in range(0, len(body), 2**20):
        yield body[at : at + 2**20]


@pytest.mark.spec("P-03")
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_415_results_come_as_json(tmp_path: Path, kind: str) -> None:
    async with waiting(tmp_path) as site:
        told = [
            await site.post(RESULT, result_body(site.id), **{"content-type": kind}),
            await site.post(ERROR, error_body(site.id), **{"content-type": kind}),
        ]
        left = await site.get(f"{PENDING}/{site.id}")

    assert {refusal(each)[:2] for each in told} == {(415, "UnsupportedMediaTypeError")}
    assert left.json["status"] == "waiting"


@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    ("method", "path"), [("GET", RESULT), ("PUT", ERROR), ("GET", WEBHOOK), ("POST", PENDING)]
)
async def test_405_a_route_lists_its_methods_in_the_allow_header(
    tmp_path: Path, method: str, path: str
) -> None:
    async with waiting(tmp_path) as site:
        told = await site.caller.request(method, path, headers=site.caller.authorization)

    assert refusal(told)[:2] == (405, "MethodNotAllowedError")
    assert told.headers["allow"] in {"GET", "POST"}


def _noting(seen: list[str | None]) -> Any:
    @async_tool(name="deploy")
    async def start(context: ToolContext) -> Pending:
        """Deploy."""
        seen.append(context.callback_url)
        return Pending()

    return start


@pytest.mark.spec("P-03")
async def test_without_a_configured_address_results_are_posted_to_the_server_that_runs(
    tmp_path: Path,
) -> None:
    seen: list[str | None] = []
    async with open_stage(tmp_path, SCRIPT, tools=[_noting(seen)]) as at:
        await at.prompt("ship")
        async with serve_runtime(at.runtime, tmp_path) as caller:
            other = await at.runtime.create_session(directory=tmp_path)
            await at.runtime.prompt(other.id, "ship too")
            told = await caller.request("POST", str(seen[1]).removeprefix(caller.listing.url), data=b"{}")
            listening = f"{caller.listing.url}/async-tool/webhook"

    assert seen == [None, listening]
    assert told.status == 401


async def test_a_configured_address_goes_before_the_server_that_runs(tmp_path: Path) -> None:
    seen: list[str | None] = []
    config = AsyncToolsConfig(url="https://agents.example.test/")
    async with (
        open_stage(tmp_path, SCRIPT, tools=[_noting(seen)], async_tools=config) as at,
        serve_runtime(at.runtime, tmp_path),
    ):
        await at.prompt("ship")

    assert seen == ["https://agents.example.test/async-tool/webhook"]


@pytest.mark.spec("P-03")
async def test_the_webhook_body_of_the_sources_example_is_accepted(tmp_path: Path) -> None:
    """A preview is deployed: the body is the one that the source shows, with the call's own id."""
    result = {
        "title": "Deployment Complete",
        "output": "Preview deployed to https://preview-123.example.com",
        "metadata": {"url": "https://preview-123.example.com", "deploymentID": "deploy-123"},
    }
    async with waiting(tmp_path) as site:
        body = json.dumps({"pendingID": site.id, "result": result}).encode()
        told = await site.webhook(
            body, **{"X-Webhook-Signature": plain_signature(site.secret.encode(), body)}
        )
        shown = await site.get(f"{PENDING}/{site.id}")
        results = await site.went_on()

    assert told.status == 200
    assert shown.json["result"] == result
    assert results == [result["output"]]
