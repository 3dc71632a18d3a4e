"""Signatures of webhooks, against the official library of Standard Webhooks."""

import base64
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from asyncagents.domain.call.webhook_signature import (
    InvalidSignature,
    ValidSignature,
    sign_standard,
    verify_signature,
)

SECRETS = st.binary(min_size=24, max_size=64).map(lambda key: f"whsec_{base64.b64encode(key).decode()}")
IDS = st.from_regex(r"[A-Za-z0-9_:@/+=~-]{1,64}", fullmatch=True)
BODIES = st.text(st.characters(codec="utf-8"))


def headed(id: str, seconds: int, signature: str) -> dict[str, str]:
    return {"webhook-id": id, "webhook-timestamp": str(seconds), "webhook-signature": signature}


@given(SECRETS, IDS, BODIES)
def test_each_library_accepts_signatures_of_the_other(secret: str, id: str, body: str) -> None:
    seconds, peer = int(time.time()), Webhook(secret)
    theirs = peer.sign(id, datetime.fromtimestamp(seconds, UTC), body)
    assert theirs == sign_standard(secret, id, seconds, body.encode())
    headers = headed(id, seconds, f"v1a,AAAA v1,{base64.b64encode(b'other').decode()} {theirs}")
    peer.verify(body, headers, json_parse=False)
    assert verify_signature(headers, body.encode(), (secret,), seconds * 1000) == ValidSignature()


@given(SECRETS, BODIES, st.sampled_from(["secret", "id", "body", "late", "early"]))
def test_each_library_refuses_a_changed_or_mistimed_message(secret: str, body: str, changed: str) -> None:
    now = int(time.time())
    seconds = now + {"late": -330, "early": 330}.get(changed, 0)
    headers = headed("msg_1", seconds, sign_standard(secret, "msg_1", seconds, body.encode()))
    secret = f"whsec_{base64.b64encode(b'another').decode()}" if changed == "secret" else secret
    headers |= {"webhook-id": "msg_2"} if changed == "id" else {}
    body += "." * (changed == "body")
    assert isinstance(verify_signature(headers, body.encode(), (secret,), now * 1000), InvalidSignature)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, headers, json_parse=False)
