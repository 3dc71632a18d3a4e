"""Signatures of webhooks, each expected value computed here with the standard library alone."""

import base64
import hashlib
import hmac
from email.message import Message
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.domain.call.webhook_signature import (
    MOST_HEADER_CHARACTERS,
    MOST_SIGNATURES,
    TOLERANCE_MS,
    Headers,
    InvalidSignature,
    ValidSignature,
    sign_plain,
    sign_standard,
    verify_signature,
)

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OLD = "whsec_" + base64.b64encode(b"o" * 24).decode()
RAW = "shared-secret"
BODY = b'{"pendingID":"tool_1","result":{"output":"done"}}'
SECONDS = 1_763_294_400
NOW = SECONDS * 1000


def standard(key: bytes, id: str = "msg_1", at: int | str = SECONDS, body: bytes = BODY) -> str:
    signed = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(signed).decode()


def plain(key: bytes, body: bytes = BODY) -> str:
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def headed(
    signature: str, id: str = "msg_1", at: int | str = SECONDS, prefix: str = "webhook"
) -> dict[str, str]:
    return {f"{prefix}-id": id, f"{prefix}-timestamp": str(at), f"{prefix}-signature": signature}


def genuine(
    headers: Headers, *, secrets: tuple[str, ...] = (SECRET,), body: bytes = BODY, now: int = NOW
) -> bool:
    return isinstance(verify_signature(headers, body, secrets, now), ValidSignature)


GOOD = headed(standard(KEY))


def as_message(headers: dict[str, str]) -> Any:
    """As the server of the standard library holds them: neither a mapping nor pairs."""
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return message


def test_the_published_example_of_the_specifications_libraries_verifies() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = headed(
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
    )
    assert genuine(headers, secrets=(secret,), body=body, now=1614265330_000)
    assert (
        sign_standard(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
        == headers["webhook-signature"]
    )


@pytest.mark.spec("P-06")
@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (SECRET, KEY),
        (SECRET.rstrip("="), KEY),
        (RAW, RAW.encode()),
        ("whsec_not base64!", b"whsec_not base64!"),
        ("schlüssel", "schlüssel".encode()),
    ],
)
def test_a_signature_equals_one_computed_with_the_standard_library(secret: str, key: bytes) -> None:
    assert sign_standard(secret, "msg_1", SECONDS, BODY) == standard(key)
    assert sign_plain(secret, BODY) == plain(secret.encode())
    assert genuine(headed(standard(key)), secrets=(secret,))
    assert genuine({"X-Webhook-Signature": plain(secret.encode())}, secrets=(secret,))


@pytest.mark.spec("P-06")
@pytest.mark.parametrize(
    "headers",
    [
        GOOD,
        {name.upper(): value for name, value in GOOD.items()},
        headed(standard(KEY), prefix="svix"),
        headed(f"v1a,AAAA v1,AAAA {standard(KEY)} v2,x nonsense"),
        headed(f"v1,AAAA, {standard(KEY)}, v1,BBBB"),
        headed(f"  {standard(KEY)}\t"),
        [*GOOD.items(), ("webhook-signature", "v1,AAAA")],
        [("webhook-signature", "v1,AAAA"), *GOOD.items()],
        [*GOOD.items(), *GOOD.items()],
        {"X-Webhook-Signature": plain(KEY)},
        {"x-webhook-signature": plain(SECRET.encode())},
        {"X-Webhook-Signature": "sha256=" + plain(KEY)},
        {"X-WEBHOOK-SIGNATURE": "SHA256=" + plain(KEY).upper()},
        [("X-Webhook-Signature", "0" * 64), ("X-Webhook-Signature", plain(KEY))],
        {**GOOD, "X-Webhook-Signature": "nonsense"},
        {**GOOD, "svix-timestamp": "1"},
        [(name.encode(), value.encode()) for name, value in GOOD.items()],
        [(b"X-Webhook-Signature", plain(KEY).encode())],
        as_message(GOOD),
    ],
)
def test_a_good_signature_is_valid_in_any_spelling_of_its_headers(headers: Headers) -> None:
    assert genuine(headers)


@pytest.mark.spec("P-06")
@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "not signed"),
        ({"authorization": "Bearer x"}, "not signed"),
        (headed(""), "no signature of version v1"),
        (headed("v1,"), "no signature of version v1"),
        (headed(standard(KEY)[3:]), "no signature of version v1"),
        (headed(standard(KEY).replace("v1,", "v2,")), "no signature of version v1"),
        (headed(standard(KEY).replace("v1,", "v1=")), "no signature of version v1"),
        (headed("v1," + "A" * 44), "no signature matches"),
        (headed(standard(KEY)[:-2]), "no signature matches"),
        (headed(standard(KEY) + "="), "no signature matches"),
        (headed("v1,\udcff\ud800é"), "no signature matches"),
        (headed("v1," + hmac.new(KEY, BODY, "sha256").hexdigest()), "no signature matches"),
        (headed(standard(b"other key")), "no signature matches"),
        (headed(standard(KEY, id="msg_2")), "no signature matches"),
        (headed(standard(KEY, at=SECONDS + 1)), "no signature matches"),
        (headed(standard(KEY, body=BODY + b" ")), "no signature matches"),
        (headed(standard(KEY, at=f"0{SECONDS}")), "no signature matches"),
        (headed("v1," + "A" * MOST_HEADER_CHARACTERS), "too long"),
        (headed(" ".join(["v1,AAAA"] * MOST_SIGNATURES + [standard(KEY)])), "too long"),
        (headed(standard(KEY, id=""), id=""), "webhook-id"),
        (headed(standard(KEY, id="a.b"), id="a.b"), "webhook-id"),
        (headed(standard(KEY, id="ä"), id="ä"), "webhook-id"),
        (headed(standard(KEY, id="x" * 257), id="x" * 257), "webhook-id"),
        (headed(standard(KEY, id="a\nb"), id="a\nb"), "webhook-id"),
        ([*GOOD.items(), ("webhook-id", "msg_2")], "webhook-id"),
        ({name: value for name, value in GOOD.items() if name != "webhook-id"}, "webhook-id"),
        ({name: value for name, value in GOOD.items() if name != "webhook-timestamp"}, "webhook-timestamp"),
        ({name: value for name, value in GOOD.items() if name != "webhook-signature"}, "webhook-signature"),
        ([*GOOD.items(), ("Webhook-Timestamp", str(SECONDS + 1))], "webhook-timestamp"),
        *(
            (headed(standard(KEY, at=at), at=at), "webhook-timestamp")
            for at in (
                "",
                "now",
                "-1",
                "+1763294400",
                "1763294400.0",
                "1_763_294_400",
                "١٧٦٣٢٩٤٤٠٠",
                "9" * 13,
                "1e9",
            )
        ),
        (headed(standard(KEY, at=NOW), at=NOW), "webhook-timestamp"),
        ({"X-Webhook-Signature": ""}, "empty"),
        ({"X-Webhook-Signature": "sha256="}, "empty"),
        ({"X-Webhook-Signature": plain(KEY)[:-1]}, "no signature matches"),
        ({"X-Webhook-Signature": plain(KEY) + "0"}, "no signature matches"),
        ({"X-Webhook-Signature": "sha1=" + plain(KEY)}, "no signature matches"),
        (
            {"X-Webhook-Signature": base64.b64encode(bytes.fromhex(plain(KEY))).decode()},
            "no signature matches",
        ),
        ({"X-Webhook-Signature": plain(KEY, BODY + b"\n")}, "no signature matches"),
        ({"X-Webhook-Signature": "a" * (MOST_HEADER_CHARACTERS + 1)}, "too long"),
    ],
)
def test_an_invalid_signature_is_refused_with_a_reason(headers: Headers, reason: str) -> None:
    verdict = verify_signature(headers, BODY, (SECRET,), NOW)
    assert isinstance(verdict, InvalidSignature)
    assert reason in verdict.reason
    assert SECRET not in verdict.reason


@pytest.mark.spec("P-06")
@pytest.mark.parametrize(("late", "fine"), [(TOLERANCE_MS, True), (TOLERANCE_MS + 1, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_five_minutes_into_the_past_or_the_future_are_tolerated(late: int, fine: bool, sign: int) -> None:
    assert genuine(GOOD, now=NOW + sign * late) is fine


@pytest.mark.spec("P-06")
@pytest.mark.parametrize("broken", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("prefix", ["webhook", "svix"])
def test_a_plain_signature_is_ignored_beside_invalid_standard_headers(broken: str, prefix: str) -> None:
    fine = {"X-Webhook-Signature": plain(KEY)}
    stale = headed(standard(KEY, at=SECONDS - 301), at=SECONDS - 301, prefix=prefix)
    alone = {broken.replace("webhook", prefix): GOOD[broken]}
    assert genuine(fine)
    assert not genuine({**fine, **stale})
    assert not genuine({**fine, **alone})


def test_a_plain_signature_is_not_valid_as_a_standard_signature() -> None:
    body = b'{"a":"x.1763294400.{}"}'
    cut = headed("v1," + base64.b64encode(bytes.fromhex(plain(KEY, body))).decode(), id='{"a":"x')
    assert not genuine(cut, body=b'{}"}')


@pytest.mark.spec("P-06")
@pytest.mark.parametrize("secrets", [(), ("",), ("  ",), ("whsec_",), ("whsec_ ",), ("", "whsec_")])
@pytest.mark.parametrize("key", [b"", b"  ", b"whsec_", b"whsec_ "])
def test_no_signature_is_valid_without_a_secret(secrets: tuple[str, ...], key: bytes) -> None:
    assert not genuine(headed(standard(key)), secrets=secrets)
    assert not genuine({"X-Webhook-Signature": plain(key)}, secrets=secrets)


def test_a_missing_and_a_wrong_secret_give_the_same_verdict() -> None:
    assert verify_signature(GOOD, BODY, (), NOW) == verify_signature(GOOD, BODY, (OLD,), NOW)


@pytest.mark.spec("P-06")
def test_while_secrets_are_rotated_each_of_them_counts() -> None:
    for secrets in ((SECRET, OLD), (OLD, SECRET), (RAW, "", OLD, SECRET)):
        assert genuine(GOOD, secrets=secrets)
        assert genuine({"X-Webhook-Signature": plain(KEY)}, secrets=secrets)
    assert genuine(headed(f"{standard(b'o' * 24)} {standard(b'unknown')}"), secrets=(OLD,))
    assert not genuine(GOOD, secrets=(OLD, RAW))


TEXT = st.text(max_size=80) | st.text(
    st.characters(codec=None, categories=("Cs", "Cc", "Nd", "Lu")), max_size=40
)
NAMES = st.sampled_from(
    [
        "webhook-id",
        "Webhook-Timestamp",
        "webhook-signature",
        "svix-id",
        "SVIX-timestamp",
        "svix-signature",
        "X-Webhook-Signature",
    ]
)
VALUES = TEXT | st.sampled_from([*GOOD.values(), plain(KEY), "sha256=", "v1,", "v1a,AAAA", str(SECONDS)])


@pytest.mark.spec("P-06")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(NAMES | TEXT, VALUES), max_size=8),
    st.binary(max_size=60),
    st.lists(TEXT.filter(lambda text: bool(text.removeprefix("whsec_").strip())), max_size=3),
    st.integers(-(2**63), 2**63),
)
def test_arbitrary_headers_and_bytes_give_an_invalid_signature(
    headers: list[tuple[str, str]], body: bytes, secrets: list[str], now: int
) -> None:
    assert isinstance(verify_signature(headers, body, secrets, now), InvalidSignature)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60), st.text(min_size=1, max_size=40), st.integers(0, 10**11))
def test_a_signature_is_invalid_after_a_change_of_the_body_or_the_secret(
    body: bytes, secret: str, at: int
) -> None:
    if not secret.removeprefix("whsec_").strip():
        return
    headers = headed(sign_standard(secret, "msg_1", at, body), at=at)
    short = {"x-webhook-signature": sign_plain(secret, body)}
    for given_headers in (headers, short):
        assert genuine(given_headers, secrets=(secret,), body=body, now=at * 1000)
        assert not genuine(given_headers, secrets=(secret + "x",), body=body, now=at * 1000)
        flipped = bytes([body[0] ^ 1]) + body[1:] if body else b"\0"
        assert not genuine(given_headers, secrets=(secret,), body=flipped, now=at * 1000)
