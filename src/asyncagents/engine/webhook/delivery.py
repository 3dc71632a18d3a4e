"""Outgoing webhooks to list, read and send again: due, delivered and given up."""

from typing import Protocol, TypeAlias, assert_never

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.domain.call.signature import sign_plain, sign_standard
from asyncagents.domain.call.webhook import STATES, Again, Dead, Delivered, Delivery, DeliveryState, Verdict
from asyncagents.domain.port import Rng
from asyncagents.errors import InvalidInput
from asyncagents.store.facade.delivery import DeliveryStore
from asyncagents.store.verb.delivery import Parcel

MOST = 1_000


class Deliveries:
    """Get it from a runtime: `runtime.deliveries`."""

    def __init__(self, store: DeliveryStore) -> None:
        self._store = store

    async def list(
        self, state: DeliveryState | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[Delivery, ...]:
        """List deliveries in the order of their calls, after the id `after`."""
        if not 0 < limit <= MOST:
            raise InvalidInput(f"limit must be from 1 to {MOST}")
        if state is not None and state not in STATES:
            raise InvalidInput(f"state must be one of {', '.join(STATES)}")
        return await self._store.list(state, after=after, limit=limit)

    async def get(self, delivery_id: str) -> Delivery:
        return await self._store.get(delivery_id)

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Make a dead delivery due again, as if it were new; a process that serves sends it."""
        return await self._store.redeliver(delivery_id)


SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
PAUSES_MS = (
    5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR
)  # fmt: skip
"""Pause before each further try; after a bit more than three days a delivery is given up."""
LONGEST_MS = 24 * HOUR
GONE = 410
AGENT = "asyncagents (+webhook)"


class Letter(Struct, frozen=True):
    url: str
    headers: dict[str, str]
    body: bytes


class Answered(Struct, frozen=True):
    status: int
    retry_after: float | None = None
    """Seconds of the `Retry-After` header, if any."""


class Unreachable(Struct, frozen=True):
    """No response to this try."""

    why: str


class Forbidden(Struct, frozen=True):
    """Nothing was sent, and nothing will be unless the config or the URL changes."""

    why: str


Answer: TypeAlias = Answered | Unreachable | Forbidden


class Post(Protocol):
    async def __call__(self, letter: Letter) -> Answer: ...


async def switched_off(letter: Letter) -> Answer:
    """Refuse every delivery: the sender of a runtime with webhooks off."""
    return Forbidden("webhooks are off: set async_tools.webhooks.enabled to true, then send it again")


def sealed(parcel: Parcel, secrets: tuple[Secret, ...], now: int) -> Letter:
    """Sign one try of a delivery; its id stays the same. One signature per secret, the plain by the first."""
    seconds = now // 1000
    known = [secret.reveal() for secret in secrets]
    signatures = [sign_standard(secret, parcel.id, seconds, parcel.body) for secret in known]
    return Letter(
        parcel.url,
        {
            "content-type": "application/json",
            "user-agent": AGENT,
            "webhook-id": parcel.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(signatures),
            "x-webhook-signature": f"sha256={sign_plain(known[0], parcel.body)}",
        },
        parcel.body,
    )


def judged(answer: Answer, attempt: int, *, now: int, rng: Rng) -> Verdict:
    """Return what follows from the response to a try, counted from 1."""
    match answer:
        case Answered(status) if 200 <= status < 300:
            return Delivered()
        case Answered(status) if status == GONE:
            return Dead("the receiver answered 410 Gone: it wants no more webhooks")
        case Answered(status, retry_after):
            followed = "; redirects are not followed" if 300 <= status < 400 else ""
            return _again(f"the receiver answered {status}{followed}", attempt, retry_after, now=now, rng=rng)
        case Unreachable(why):
            return _again(why, attempt, None, now=now, rng=rng)
        case Forbidden(why):
            return Dead(why)
        case _:
            assert_never(answer)


def _again(why: str, attempt: int, retry_after: float | None, *, now: int, rng: Rng) -> Verdict:
    if attempt > len(PAUSES_MS):
        return Dead(f"{why}; given up after {attempt} tries")
    return Again(now + pause(attempt, retry_after, rng), why)


def pause(attempt: int, retry_after: float | None, rng: Rng) -> int:
    """Return the pause in ms: `Retry-After` may extend it up to a day, never shorten it."""
    usual = PAUSES_MS[attempt - 1]
    asked = int(min(max(retry_after or 0.0, 0.0) * 1000, LONGEST_MS))
    wait = max(usual, asked)
    return wait + rng.below(wait // 10)
