"""Outgoing webhooks to list, read and send again: due, delivered and given up."""

from typing import Protocol, TypeAlias, assert_never

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.domain.call.webhook import (
    DELIVERY_STATES,
    Delivery,
    DeliveryDead,
    DeliveryDone,
    DeliveryOutcome,
    DeliveryRetry,
    DeliveryState,
)
from asyncagents.domain.call.webhook_signature import sign_plain, sign_standard
from asyncagents.domain.clock import Rng
from asyncagents.errors import InvalidInput
from asyncagents.store.due_delivery import DueDelivery
from asyncagents.store.facade import DeliveryStore

MAX_LIMIT = 1_000


class Deliveries:
    """List outgoing webhooks, and send dead ones again."""

    def __init__(self, store: DeliveryStore) -> None:
        self._store = store

    async def list(
        self, state: DeliveryState | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[Delivery, ...]:
        """List deliveries in the order of their calls, after the id `after`."""
        if not 0 < limit <= MAX_LIMIT:
            raise InvalidInput(f"limit must be from 1 to {MAX_LIMIT}")
        if state is not None and state not in DELIVERY_STATES:
            raise InvalidInput(f"state must be one of {', '.join(DELIVERY_STATES)}")
        return await self._store.list(state, after=after, limit=limit)

    async def get(self, delivery_id: str) -> Delivery:
        """Return one delivery."""
        return await self._store.get(delivery_id)

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Make a dead delivery due again, as if it were new; a process that serves sends it."""
        return await self._store.redeliver(delivery_id)


SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
RETRY_PAUSES_MS = (
    5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR
)  # fmt: skip
"""Pause before each further try; after a bit more than three days a delivery is given up."""
MAX_PAUSE_MS = 24 * HOUR
HTTP_GONE = 410
USER_AGENT = "asyncagents (+webhook)"


class SignedRequest(Struct, frozen=True):
    url: str
    headers: dict[str, str]
    body: bytes


class WebhookResponse(Struct, frozen=True):
    status: int
    retry_after: float | None = None
    """Seconds of the `Retry-After` header, if any."""


class Unreachable(Struct, frozen=True):
    """No response to this try."""

    why: str


class DeliveryForbidden(Struct, frozen=True):
    """Nothing was sent, and nothing will be unless the config or the URL changes."""

    why: str


DeliveryResponse: TypeAlias = WebhookResponse | Unreachable | DeliveryForbidden


class SendWebhook(Protocol):
    async def __call__(self, request: SignedRequest) -> DeliveryResponse: ...


async def refuse_delivery(request: SignedRequest) -> DeliveryResponse:
    """Refuse every delivery: the sender of a runtime with webhooks off."""
    return DeliveryForbidden("webhooks are off: set async_tools.webhooks.enabled to true, then send it again")


def sign_delivery(delivery: DueDelivery, secrets: tuple[Secret, ...], now: int) -> SignedRequest:
    """Sign one try of a delivery; its id stays the same. One signature per secret, the plain by the first."""
    seconds = now // 1000
    known = [secret.reveal() for secret in secrets]
    signatures = [sign_standard(secret, delivery.id, seconds, delivery.body) for secret in known]
    return SignedRequest(
        delivery.url,
        {
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            "webhook-id": delivery.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(signatures),
            "x-webhook-signature": f"sha256={sign_plain(known[0], delivery.body)}",
        },
        delivery.body,
    )


def judge_response(answer: DeliveryResponse, attempt: int, *, now: int, rng: Rng) -> DeliveryOutcome:
    """Return what follows from the response to a try, counted from 1."""
    match answer:
        case WebhookResponse(status) if 200 <= status < 300:
            return DeliveryDone()
        case WebhookResponse(status) if status == HTTP_GONE:
            return DeliveryDead("the receiver answered 410 Gone: it wants no more webhooks")
        case WebhookResponse(status, retry_after):
            followed = "; redirects are not followed" if 300 <= status < 400 else ""
            return _retry_or_give_up(
                f"the receiver answered {status}{followed}", attempt, retry_after, now=now, rng=rng
            )
        case Unreachable(why):
            return _retry_or_give_up(why, attempt, None, now=now, rng=rng)
        case DeliveryForbidden(why):
            return DeliveryDead(why)
        case _:
            assert_never(answer)


def _retry_or_give_up(
    why: str, attempt: int, retry_after: float | None, *, now: int, rng: Rng
) -> DeliveryOutcome:
    if attempt > len(RETRY_PAUSES_MS):
        return DeliveryDead(f"{why}; given up after {attempt} tries")
    return DeliveryRetry(now + retry_pause_ms(attempt, retry_after, rng), why)


def retry_pause_ms(attempt: int, retry_after: float | None, rng: Rng) -> int:
    """Return the pause in ms: `Retry-After` may extend it up to a day, never shorten it."""
    usual = RETRY_PAUSES_MS[attempt - 1]
    asked = int(min(max(retry_after or 0.0, 0.0) * 1000, MAX_PAUSE_MS))
    wait = max(usual, asked)
    return wait + rng.below(wait // 10)
