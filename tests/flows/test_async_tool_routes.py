"""The routes of `/async-tool`, and what requests are answered that no client would send."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.domain.event import SessionIdle
from asyncagents.server.http.messages import Pairs, Request
from tests.support.http.asgi import build_application, call_application
from tests.support.runtime import open_stage
from tests.support.webhook.delivery import (
    ERROR,
    PENDING,
    RESULT,
    SCRIPT,
    UNKNOWN,
    WEBHOOK,
    DeliverySender,
    WaitingService,
    error_body,
    open_sender,
    open_shared_sender,
    response_json,
    result_body,
)

alike = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DeliverySender]:
    """One for all who change nothing."""
    async with open_shared_sender(tmp_path_factory.mktemp("kept")) as post:
        yield post


def get(path: str, **query: str) -> Request:
    return Request(method="GET", path=path, query=tuple(query.items()))


def delete(id: str) -> Request:
    return Request(method="DELETE", path=f"{PENDING}/{id}")


@pytest.mark.spec("P-03", "P-04", "P-05")
async def test_a_result_is_taken_once_and_answered_alike(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        first, again = (
            await post.send(post.build_result(post.body)),
            await post.send(post.build_result(post.body)),
        )
        await post.stage.listener.until(SessionIdle)
        other = await post.send(post.build_result(result_body(post.id, "v3")))
        known = await post.send(get(f"{PENDING}/{post.id}"))

    assert first.status == 200
    assert other.status == 409
    assert first == again == known
    assert response_json(first)["status"] == "completed"
    assert response_json(other) == {
        "name": "ConflictError",
        "data": {"message": response_json(other)["data"]["message"]},
    }
    assert "v2 is live" in response_json(other)["data"]["message"]


@pytest.mark.spec("P-03", "P-04")
async def test_an_error_is_taken_by_its_own_route(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        crossed = [
            await post.send(post.build_result(error_body(post.id))),
            await post.send(post.build_result(post.body, ERROR)),
        ]
        taken = await post.send(post.build_result(error_body(post.id), ERROR))

    assert [answer.status for answer in crossed] == [400, 400]
    assert taken.status == 200
    assert response_json(taken)["status"] == "failed"
    assert response_json(taken)["error"] == "no route"


@alike
@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 404),
        ("Application/JSON; charset=utf-8", 404),
        ("application/cloudevents+json", 404),
        ("", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=application/json", 415),
        ("text/html+json", 415),
        ("\udcff", 415),
    ],
)
async def test_results_come_as_json(kept: DeliverySender, kind: str, status: int) -> None:
    headers = (("Content-Type", kind),) if kind else ()
    before = await kept.state()
    taken = await kept.send(Request(method="POST", path=RESULT, headers=headers, body=result_body(UNKNOWN)))
    assert taken.status == status
    assert await kept.state() == before


@pytest.mark.spec("P-03", "P-05")
async def test_an_unknown_call_session_or_path_is_404(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        await post.stage.runtime.delete_session(post.stage.session_id)
        answers = [
            await post.send(request)
            for request in (
                post.build_result(result_body(UNKNOWN)),
                post.build_result(error_body(UNKNOWN), ERROR),
                post.build_result(post.body),
                get(f"{PENDING}/{UNKNOWN}"),
                get(f"{PENDING}/{post.id}"),
                delete(UNKNOWN),
                delete(post.id),
                get(f"{PENDING}/\0"),
                get(f"{PENDING}/\ud800"),
                get(f"{PENDING}/{'x' * 100_000}"),
                get(f"{PENDING}/"),
                get(f"{PENDING}/a/b"),
                get("/async-tool"),
                get(PENDING, sessionID="ses_gone"),
                get(PENDING, sessionID=""),
            )
        ]

    assert {answer.status for answer in answers} == {404}
    assert {response_json(answer)["name"] for answer in answers} == {"NotFoundError"}
    assert all(len(answer.body) < 1_000 for answer in answers)


@pytest.mark.spec("P-14", "P-03")
async def test_a_call_is_cancelled_and_the_session_goes_on(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        first = await post.send(delete(post.id))
        await post.stage.listener.until(SessionIdle)
        again = await post.send(delete(post.id))
        late = await post.send(post.build_signed())

    assert first == again
    assert first.status == 200
    assert response_json(first)["status"] == "failed"
    assert response_json(first)["error"] == "cancelled"
    assert late.status == 409


@pytest.mark.spec("P-03", "P-09")
async def test_pending_calls_are_listed_page_by_page_and_by_filter(tmp_path: Path) -> None:
    async with open_sender(tmp_path) as post:
        every = response_json(await post.send(get(PENDING)))
        first = response_json(await post.send(get(PENDING, limit="1", directory="/somewhere")))
        second = response_json(await post.send(get(PENDING, limit="1", after=first[0]["id"])))
        last = response_json(await post.send(get(PENDING, after=second[0]["id"])))
        own = response_json(await post.send(get(PENDING, sessionID=post.stage.session_id)))
        await post.send(delete(post.id))
        gone = response_json(await post.send(get(PENDING, status="failed", sessionID=post.stage.session_id)))
        left = response_json(await post.send(get(PENDING)))
        nothing = [
            response_json(await post.send(get(PENDING, status=status)))
            for status in ("processing", "expired")
        ]

    assert [call["id"] for call in every] == [post.id, post.other_id]
    assert first == every[:1]
    assert second == every[1:]
    assert last == []
    assert own == every[:1]
    assert [call["id"] for call in gone] == [post.id]
    assert left == every[1:]
    assert nothing == [[], []]
    assert {call["status"] for call in every} == {"waiting"}
    assert post.secret not in json.dumps(every)


@alike
@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    "query",
    [
        (("status", "done"),),
        (("status", ""),),
        (("limit", "0"),),
        (("limit", "-1"),),
        (("limit", "1001"),),
        (("limit", "9" * 5000),),
        (("limit", "²"),),
        (("limit", "1.5"),),
        (("after", "\ud800"),),
        (("after", "\0"),),
        (("after", "x" * 1000),),
        (("sessionID", "\ud800"),),
        (("state", "waiting"),),
        (("limit", "1"), ("limit", "2")),
        (("\ud800", "\0"),),
    ],
)
async def test_a_filter_that_makes_no_sense_is_400(kept: DeliverySender, query: Pairs) -> None:
    refused = await kept.send(Request(method="GET", path=PENDING, query=query))
    assert refused.status == 400
    assert response_json(refused)["name"] == "BadRequest"


@alike
@pytest.mark.spec("P-03")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", RESULT),
        ("PUT", ERROR),
        ("GET", WEBHOOK),
        ("POST", PENDING),
        ("PATCH", f"{PENDING}/x"),
        ("", PENDING),
    ],
)
async def test_a_method_that_a_route_does_not_take_is_405(
    kept: DeliverySender, method: str, path: str
) -> None:
    refused = await kept.send(Request(method=method, path=path, body=kept.body))
    assert refused.status == 405
    assert response_json(refused)["name"] == "MethodNotAllowedError"


@pytest.mark.spec("P-03")
async def test_requests_get_503_without_secrets_while_the_store_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sender(tmp_path) as post:
        pass
    requests = (
        post.build_result(post.body),
        post.build_result(error_body(post.id), ERROR),
        post.build_signed(),
        get(PENDING),
        get(f"{PENDING}/{post.id}"),
        delete(post.id),
    )
    answers = [await post.send(request) for request in requests]

    assert {answer.status for answer in answers} == {503}
    assert all("again later" in response_json(answer)["data"]["message"] for answer in answers)
    assert post.secret not in caplog.text + str(answers)
    assert "Closed" in caplog.text


@pytest.mark.spec("P-03")
async def test_any_request_gets_a_json_answer_and_never_a_server_error(tmp_path: Path) -> None:
    texts = st.text(max_size=20) | st.sampled_from(
        ["\ud800", "\0", UNKNOWN, "waiting", "1", "application/json"]
    )
    filters = st.sampled_from(["status", "sessionID", "after", "limit"])
    asked: list[Request] = []

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(
        st.builds(
            Request,
            method=st.sampled_from(["GET", "POST", "DELETE"]),
            path=st.sampled_from([RESULT, ERROR, WEBHOOK, PENDING])
            | texts.map(lambda text: f"{PENDING}/{text}")
            | texts,
            query=st.lists(st.tuples(filters | texts, texts), max_size=3).map(tuple),
            headers=st.lists(st.tuples(st.just("content-type") | texts, texts), max_size=2).map(tuple),
            body=st.binary(max_size=40)
            | texts.map(lambda text: json.dumps({"pendingID": text, "error": text}).encode()),
        )
    )
    def collect(request: Request) -> None:
        asked.append(request)

    collect()
    async with open_sender(tmp_path) as post:
        before = await post.state()
        for request in asked:
            got = await post.send(request)
            response_json(got)
            assert got.status in {200, 400, 401, 404, 405, 415}
            assert got.status != 200 or request.method == "GET"
        assert await post.state() == before


@pytest.mark.spec("P-03")
async def test_a_pending_call_is_shown_without_internal_fields(tmp_path: Path) -> None:
    async with open_stage(tmp_path, SCRIPT, tools=[WaitingService().tool]) as at:
        await at.prompt("ship")
        call = await at.open_call()
        shown = await call_application(build_application(at.runtime), get(f"{PENDING}/{call.id}"))

    assert shown.status == 200
    assert set(response_json(shown)) == {
        "id", "sessionID", "messageID", "partID", "callID", "tool", "input", "status", "timeout", "time",
    }  # fmt: skip
