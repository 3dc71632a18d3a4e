"""Outgoing webhooks: when they are tried again, and what stands in them, as tables."""

import base64
import hmac
from hashlib import sha256

import pytest

from asyncagents.config.secret import Secret
from asyncagents.domain.call.webhook import DeliveryDead, DeliveryDone, DeliveryRetry, origin_of
from asyncagents.domain.call.webhook_signature import ValidSignature, verify_signature
from asyncagents.domain.id import CallId
from asyncagents.engine.webhook.delivery import (
    RETRY_PAUSES_MS,
    DeliveryForbidden,
    DeliveryResponse,
    SignedRequest,
    Unreachable,
    WebhookResponse,
    judge_response,
    refuse_delivery,
    retry_pause_ms,
    sign_delivery,
)
from asyncagents.store.due_delivery import DueDelivery

NOW = 1_700_000_000_500
MINUTE, HOUR = 60_000, 3_600_000


class Least:
    def below(self, n: int) -> int:
        return 0


class Most:
    def below(self, n: int) -> int:
        return n - 1


def parcel(secret: Secret | None = None) -> DueDelivery:
    body = b'{"pendingID":"tool_1","error":"no"}'
    return DueDelivery("dlv_1", CallId("tool_1"), "https://x.test/a?t=1", "x.test", secret, NOW, 1, body)


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    ("attempt", "least"),
    [
        (1, 5_000),
        (2, 5 * MINUTE),
        (3, 30 * MINUTE),
        (4, 2 * HOUR),
        (5, 5 * HOUR),
        (6, 10 * HOUR),
        (7, 14 * HOUR),
        (8, 20 * HOUR),
        (9, 24 * HOUR),
    ],
)
def test_each_try_waits_longer_than_the_one_before_and_is_spread(attempt: int, least: int) -> None:
    assert retry_pause_ms(attempt, None, Least()) == least
    assert retry_pause_ms(attempt, None, Most()) == least + least // 10 - 1


def test_the_tries_of_a_delivery_span_more_than_three_days() -> None:
    assert sum(RETRY_PAUSES_MS) > 3 * 24 * HOUR


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        (None, 5 * MINUTE),
        (0.0, 5 * MINUTE),
        (-5.0, 5 * MINUTE),
        (1.0, 5 * MINUTE),
        (3600.0, HOUR),
        (10.0**9, 24 * HOUR),
        (1e308, 24 * HOUR),
    ],
)
def test_the_pause_follows_the_receiver_up_to_a_day_and_is_never_shorter(
    asked: float | None, waits: int
) -> None:
    verdict = judge_response(WebhookResponse(429, asked), 2, now=NOW, rng=Least())
    assert verdict == DeliveryRetry(NOW + waits, "the receiver answered 429")


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_response_completes_a_delivery(status: int) -> None:
    assert judge_response(WebhookResponse(status), 10, now=NOW, rng=Least()) == DeliveryDone()


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (WebhookResponse(301), "the receiver answered 301; redirects are not followed"),
        (WebhookResponse(307), "the receiver answered 307; redirects are not followed"),
        (WebhookResponse(400), "the receiver answered 400"),
        (WebhookResponse(404), "the receiver answered 404"),
        (WebhookResponse(500), "the receiver answered 500"),
        (Unreachable("it cannot be reached: refused"), "it cannot be reached: refused"),
    ],
)
def test_a_failed_delivery_is_tried_nine_times_more_and_then_given_up(
    answer: DeliveryResponse, why: str
) -> None:
    for attempt in range(1, 10):
        assert judge_response(answer, attempt, now=NOW, rng=Least()) == DeliveryRetry(
            NOW + RETRY_PAUSES_MS[attempt - 1], why
        )
    for attempt in (10, 11, 500):
        assert judge_response(answer, attempt, now=NOW, rng=Least()) == DeliveryDead(
            f"{why}; given up after {attempt} tries"
        )


@pytest.mark.parametrize(
    "answer", [WebhookResponse(410), DeliveryForbidden("10.0.0.1 is not a public address")]
)
def test_a_gone_or_forbidden_receiver_ends_a_delivery_at_once(answer: DeliveryResponse) -> None:
    assert isinstance(judge_response(answer, 1, now=NOW, rng=Least()), DeliveryDead)


async def test_a_runtime_without_webhooks_names_the_setting_that_enables_them() -> None:
    answer = await refuse_delivery(SignedRequest("https://x.test", {}, b""))
    assert isinstance(answer, DeliveryForbidden)
    assert "async_tools.webhooks.enabled" in answer.why


@pytest.mark.spec("P-12")
def test_a_delivery_has_a_standard_and_a_plain_signature() -> None:
    raw = b"0123456789abcdef0123456789abcdef"
    secret = "whsec_" + base64.b64encode(raw).decode()
    request = sign_delivery(parcel(), (Secret(secret),), NOW)

    signed = b"dlv_1.1700000000." + request.body
    assert request.headers["webhook-id"] == "dlv_1"
    assert request.headers["webhook-timestamp"] == "1700000000"
    expected = base64.b64encode(hmac.digest(raw, signed, sha256)).decode()
    assert request.headers["webhook-signature"] == f"v1,{expected}"
    plain = hmac.digest(secret.encode(), request.body, sha256).hex()
    assert request.headers["x-webhook-signature"] == f"sha256={plain}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("asyncagents")


def test_a_delivery_is_signed_with_all_secrets_and_plainly_with_the_first() -> None:
    told, newer = "whsec_dG9sZA==", "whsec_bmV3ZXI="
    request = sign_delivery(parcel(), (Secret(told), Secret(newer)), NOW)
    for known in (told, newer):
        assert verify_signature(request.headers, request.body, [known], NOW) == ValidSignature()
    plain = {"x-webhook-signature": request.headers["x-webhook-signature"]}
    assert verify_signature(plain, request.body, [told], NOW) == ValidSignature()


def test_the_repr_of_a_delivery_shows_no_secret() -> None:
    assert "whsec" not in repr(parcel(Secret("whsec_hidden")))


@pytest.mark.parametrize(
    ("url", "logged"),
    [
        ("https://x.test/hook/token?key=1", "https://x.test"),
        ("http://x.test:8080/", "http://x.test:8080"),
        ("http://user:pw@x.test/", "http://x.test"),
        ("http://[::1]:9/x", "http://[::1]:9"),
        ("token", "an address that cannot be read"),
        ("http://[/", "an address that cannot be read"),
        ("http://x:y/", "an address that cannot be read"),
    ],
)
def test_only_scheme_host_and_port_of_an_address_are_logged(url: str, logged: str) -> None:
    assert origin_of(url) == logged
