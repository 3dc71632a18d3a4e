"""Results that strangers bring: only what a call's secret signed counts, once, and nothing breaks on them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents import Runtime, ToolContext, async_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.call.call import TIMED_OUT
from asyncagents.domain.call.incoming_result import MOST_BYTES
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.domain.call.webhook_signature import sign_plain, sign_standard
from asyncagents.domain.event import SessionIdle
from asyncagents.errors import InvalidInput, Unauthorized
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.server.http.messages import Pairs, Request
from asyncagents.testing.clock import FakeClock
from tests.support.runtime import open_runtime, open_sqlite_runtime, open_stage
from tests.support.wait import PATIENCE
from tests.support.webhook.delivery import (
    FORGED,
    MALFORMED,
    MIB,
    SCRIPT,
    UNKNOWN,
    BuildRequest,
    DeliverySender,
    WaitingService,
    add_headers,
    assert_resumed_once,
    change_header,
    error_body,
    error_message,
    open_sender,
    open_shared_sender,
    replace_body,
    response_json,
    result_body,
    standard_headers,
)

alike = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DeliverySender]:
    """One for all who change nothing."""
    async with open_shared_sender(tmp_path_factory.mktemp("kept")) as post:
        yield post


@alike
@pytest.mark.spec("P-06", "P-03", "P-05")
@pytest.mark.parametrize("name", FORGED)
async def test_a_webhook_without_a_valid_signature_is_401_and_changes_nothing(
    kept: DeliverySender, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = await kept.state()
    answer = await kept.send(FORGED[name](kept))
    assert answer.status == 401
    assert response_json(answer)["name"] == "UnauthorizedError"
    assert await kept.state() == before
    for secret in (kept.secret, kept.secret.removeprefix("whsec_"), kept.other_secret):
        assert secret not in answer.body.decode() + caplog.text


@alike
@pytest.mark.spec("P-06", "P-03", "P-05")
@pytest.mark.parametrize("name", MALFORMED)
async def test_a_signed_but_malformed_webhook_is_400_and_changes_nothing(
    kept: DeliverySender, name: str
) -> None:
    body = MALFORMED[name](kept.id)
    before = await kept.state()
    signed = [
        await kept.send(kept.build_signed(body)),
        await kept.send(kept.build_plain(body)),
        await kept.send(kept.build_result(body)),
    ]
    unsigned = await kept.send(kept.build_webhook((), body))
    assert await kept.state() == before

    assert [answer.status for answer in (*signed, unsigned)] == [400, 400, 400, 401]
    assert {response_json(answer)["name"] for answer in signed} == {"BadRequest"}
    assert all(10 < len(error_message(answer)) < 300 for answer in signed)


TAKEN: dict[str, BuildRequest] = {
    "by Standard Webhooks": lambda post: post.build_signed(),
    "by the names of svix": lambda post: Request(
        method="POST",
        path="/async-tool/webhook",
        headers=tuple(
            (name.replace("webhook", "Svix"), value) for name, value in post.build_signed().headers
        ),
        body=post.body,
    ),
    "a little late": lambda post: post.build_signed(shift=-280),
    "a little early": lambda post: post.build_signed(shift=280),
    "while keys are rotated": lambda post: change_header(
        post.build_signed(), "webhook-signature", lambda value: f"v1,AAAA v1a,BBBB {value}"
    ),
    "with the header twice": lambda post: add_headers(post.build_signed(), ("webhook-signature", "v1,AAAA")),
    "as text": lambda post: add_headers(post.build_signed(), ("content-type", "text/plain")),
    "plainly": lambda post: post.build_plain(),
    "plainly, with a prefix": lambda post: change_header(
        post.build_plain(), "x-webhook-signature", lambda value: f"sha256={value}"
    ),
    "plainly, in capitals": lambda post: change_header(post.build_plain(), "x-webhook-signature", str.upper),
    "with a broken plain one beside it": lambda post: add_headers(
        post.build_signed(), ("X-Webhook-Signature", "x")
    ),
    "with more around it": lambda post: post.build_signed(
        post.body[:-1] + b', "type": "deploy.done", "data": [1]}'
    ),
    "as we sign it": lambda post: post.build_webhook(
        (
            ("webhook-id", "dlv_1"),
            ("webhook-timestamp", str(post.seconds)),
            ("webhook-signature", sign_standard(post.secret, "dlv_1", post.seconds, post.body)),
        )
    ),
    "as we sign it plainly": lambda post: post.build_webhook(
        (("x-webhook-signature", sign_plain(post.secret, post.body)),)
    ),
}


@pytest.mark.spec("P-06", "P-04", "P-05")
@pytest.mark.parametrize("name", TAKEN)
async def test_a_signed_webhook_resumes_once_and_a_repeat_gets_the_same_answer(
    tmp_path: Path, name: str
) -> None:
    async with open_sender(tmp_path) as post:
        request = TAKEN[name](post)
        first, *others = await asyncio.gather(*(post.send(request) for _ in range(3)))
        await assert_resumed_once(post, "v2 is live")
        before = await post.state()
        again = await post.send(request)
        assert await post.state() == before
        call = await post.tools.get(post.id)

    assert {answer.status for answer in (first, *others, again)} == {200}
    assert {answer.body for answer in (first, *others, again)} == {first.body}
    assert response_json(first) == {"pendingID": post.id, "status": "completed"}
    assert call.result == ToolResult(title="Deployed", output="v2 is live", metadata={"version": 2})


@pytest.mark.spec("P-06", "P-04")
async def test_a_signed_error_resumes_the_session_too(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        answer = await post.send(post.build_signed(error_body(post.id)))
        await assert_resumed_once(post, "no route")

    assert answer.status == 200
    assert response_json(answer) == {"pendingID": post.id, "status": "failed"}


@pytest.mark.spec("P-05", "P-06")
async def test_another_result_is_a_conflict_that_names_the_first(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        await post.send(post.build_signed())
        await assert_resumed_once(post, "v2 is live")
        before = await post.state()
        others = [
            await post.send(post.build_signed(result_body(post.id, "v3"))),
            await post.send(post.build_plain(error_body(post.id))),
            await post.send(post.build_result(result_body(post.id, "v3"))),
            await post.send(Request(method="DELETE", path=f"/async-tool/pending/{post.id}")),
        ]
        assert await post.state() == before

    assert [answer.status for answer in others] == [409] * 4
    assert all("v2 is live" in error_message(answer) for answer in others)


@pytest.mark.spec("P-06", "P-05")
async def test_one_of_two_concurrent_results_counts_and_the_other_is_a_conflict(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        one, other = await asyncio.gather(
            post.send(post.build_signed()), post.send(post.build_plain(result_body(post.id, "v3")))
        )
        await assert_resumed_once(post, "v2 is live" if one.status == 200 else "v3")

    assert sorted((one.status, other.status)) == [200, 409]


@pytest.mark.spec("P-06", "P-03")
async def test_a_deleted_call_is_404_only_for_a_webhook_with_its_secret(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        (never,) = await post.tools.secrets(UNKNOWN)
        unknown = result_body(UNKNOWN)
        headers = standard_headers(never.reveal(), unknown, post.seconds)
        await post.stage.runtime.delete_session(post.stage.session_id)
        genuine = [
            await post.send(post.build_webhook(headers, unknown)),
            await post.send(post.build_signed()),
        ]
        strangers = [await post.send(make(post)) for make in FORGED.values()]

    assert [answer.status for answer in genuine] == [404, 404]
    assert {answer.status for answer in strangers} == {401}


@pytest.mark.spec("P-06")
async def test_an_unknown_call_and_a_wrong_signature_get_the_same_response(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        known = await post.send(post.build_signed(key=b"wrong"))
        unknown = await post.send(post.build_signed(result_body(UNKNOWN), key=b"wrong"))

    assert known == unknown


@pytest.mark.spec("P-06", "P-04")
async def test_a_webhook_reaches_a_process_that_was_started_later(tmp_path: Path) -> None:
    service, model = WaitingService(), ScriptedModel(SCRIPT)
    clock = FakeClock()
    setup = Setup(model=model, open_workplaces=fixed_tools([service.tool]))
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime:
        session = await runtime.create_session(directory=tmp_path)
        await runtime.prompt(session.id, "ship")
    ((pending_id, secret),) = service.calls
    clock.advance(3600_000)
    async with open_sqlite_runtime(tmp_path, setup, clock=clock) as runtime, asyncio.timeout(PATIENCE):
        body = result_body(pending_id)
        stale = standard_headers(secret, body, clock.now() // 1000 - 3600)
        with pytest.raises(Unauthorized, match="five minutes"):
            await runtime.async_tools.receive(stale, body)
        taken = await runtime.async_tools.receive(
            dict(standard_headers(secret, body, clock.now() // 1000)), body
        )
        await runtime.wait(session.id)
        answer = (await runtime.messages(session.id))[-1].text

    assert taken.status == "completed"
    assert answer == "Shipped."
    assert len(model.requests) == 2


@pytest.mark.spec("P-06", "P-04")
async def test_a_webhook_that_arrives_before_the_tool_returns_is_accepted(tmp_path: Path) -> None:
    runtimes: list[Runtime] = []
    taken: list[str] = []

    @async_tool
    async def deploy(context: ToolContext) -> str:
        """Start a deployment that is done at once."""
        body = result_body(context.pending_id)
        headers = {"X-Webhook-Signature": sign_plain(context.secret, body)}
        taken.extend([(await runtimes[0].async_tools.receive(headers, body)).status for _ in range(2)])
        return "started"

    async with open_stage(tmp_path, SCRIPT, tools=[deploy]) as at:
        runtimes.append(at.runtime)
        answer = await at.prompt("ship")
        told = [told.output for told in at.request_messages() if isinstance(told, ToolTurn)]

    assert taken == ["completed"] * 2
    assert answer.text == "Shipped."
    assert told == ["v2 is live"]


@pytest.mark.spec("P-06", "P-04")
async def test_a_process_that_does_not_serve_accepts_a_webhook(tmp_path: Path) -> None:
    async with (
        open_sender(tmp_path) as post,
        open_runtime(tmp_path, model=ScriptedModel({}), serve=False) as door,
    ):
        both = await asyncio.gather(
            door.async_tools.receive(post.build_signed().headers, post.body), post.send(post.build_signed())
        )
        await assert_resumed_once(post, "v2 is live")

    assert both[0].status == "completed"
    assert both[1].status == 200


@pytest.mark.spec("P-06", "P-07")
async def test_after_expiry_a_signed_result_is_a_conflict(tmp_path: Path) -> None:
    async with open_sender(tmp_path, WaitingService(seconds=0.02)) as post:
        await resumed_late(post)
        answer = await post.send(post.build_signed())

    assert answer.status == 409
    assert TIMED_OUT in error_message(answer)


async def resumed_late(post: DeliverySender) -> None:
    async with asyncio.timeout(PATIENCE):
        await post.stage.runtime.wait(post.stage.session_id)
        while (await post.tools.get(post.id)).status != "expired":
            await post.stage.listener.until(SessionIdle)


@pytest.mark.spec("P-03", "P-05")
async def test_a_result_that_the_tool_rejects_is_422_and_the_call_stays_pending(tmp_path: Path) -> None:
    def check(result: ToolResult) -> bool:
        return result.metadata.get("version") == 2

    async with open_sender(tmp_path, WaitingService(check=check)) as post:
        wrong = result_body(post.id).replace(b'"version": 2', b'"version": 3')
        before = await post.state()
        refused = [await post.send(post.build_signed(wrong)), await post.send(post.build_result(wrong))]
        assert await post.state() == before
        taken = await post.send(post.build_signed())
        await assert_resumed_once(post, "v2 is live")

    assert [answer.status for answer in (*refused, taken)] == [422, 422, 200]
    assert response_json(refused[0])["name"] == "ResultRefusedError"


@pytest.mark.spec("P-06", "P-10")
async def test_a_body_without_end_is_413_before_it_is_read(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        large = result_body(post.id, "x" * MOST_BYTES)
        before = await post.state()
        answers = [
            await post.send(post.build_signed(large)),
            await post.send(post.build_webhook((), large)),
            await post.send(post.build_result(large)),
            await post.send(post.build_result(large, "/async-tool/error")),
        ]
        assert await post.state() == before
        with pytest.raises(InvalidInput):
            await post.tools.receive(post.build_signed(large).headers, large)
        fits = await post.send(post.build_signed(result_body(post.id, "x" * (MOST_BYTES - MIB))))

    assert [answer.status for answer in answers] == [413] * 4
    assert fits.status == 200


HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["webhook-id", "webhook-timestamp", "Webhook-Signature", "svix-id", "X-Webhook-Signature"]
        ),
        st.text(max_size=60) | st.sampled_from(["v1,AAAA", "sha256=", "v1,", "1763294400", "\udcff"]),
    ),
    max_size=5,
).map(tuple)
CUTS = st.tuples(st.integers(0, 120), st.integers(0, 20), st.binary(max_size=12))


@pytest.mark.spec("P-06")
async def test_no_headers_and_no_bytes_break_the_handler_or_settle_a_call(tmp_path: Path) -> None:
    tries: list[tuple[Pairs, tuple[int, int, bytes]]] = []

    @settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(HEADERS, CUTS)
    def collect(headers: Pairs, cut: tuple[int, int, bytes]) -> None:
        tries.append((headers, cut))

    collect()
    async with open_sender(tmp_path) as post:
        before = await post.state()
        statuses: set[int] = set()
        for headers, (at, length, junk) in tries:
            spoilt = post.body[:at] + junk + post.body[at + length :]
            wrong = spoilt if spoilt != post.body else b"{}"
            statuses.add((await post.send(post.build_webhook(headers, wrong))).status)
            statuses.add(
                (await post.send(add_headers(replace_body(post.build_signed(), wrong), *headers))).status
            )
        assert await post.state() == before

    assert statuses <= {400, 401}
