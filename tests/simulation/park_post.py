"""Those who are told by webhook that a call is settled: they answer late, wrongly, not at all, or well."""

import asyncio
import random

from asyncagents.domain.call.webhook_signature import sign_standard
from asyncagents.domain.id import CallId
from asyncagents.engine.webhook.delivery import DeliveryResponse, SignedRequest, Unreachable, WebhookResponse
from asyncagents.testing.process import Process
from tests.simulation.park_stage import ParkStage, Posted

GONE = 410


class PostOffice:
    """The post of one process."""

    def __init__(self, book: ParkStage, process: Process, seed: int) -> None:
        self._book = book
        self._process = process
        self._seed = seed

    async def __call__(self, request: SignedRequest) -> DeliveryResponse:
        if self._process.dead:
            raise asyncio.CancelledError
        delivery = request.headers["webhook-id"]
        posts = self._book.posts.setdefault(delivery, [])
        rng = random.Random(f"{self._seed}:{delivery}:{len(posts)}")
        if any(post.answer is None for post in posts if not self._book.dead(post.process)):
            self._book.violate(f"P-12: {delivery} is posted by two at once")
        post = Posted(self._process.number, request)
        posts.append(post)
        self._check_signature(request, delivery)
        status = (
            200
            if len(posts) > (2 if rng.random() < 0.2 else 1)
            else rng.choice([200, 200, 204, 500, 302, 0, -1, GONE])
        )
        try:
            await asyncio.sleep(60 if status < 0 else rng.choice([0, 0.1, 4]) * rng.random())
        finally:
            post.answer = status
        return WebhookResponse(status) if status else Unreachable("nobody is there")

    def _check_signature(self, request: SignedRequest, delivery: str) -> None:
        """With what its tool was told, or had brought along."""
        call_id = CallId(f"tool_{delivery.removeprefix('dlv_')}")
        own = self._book.errands[call_id].secret
        known = {own} if own else self._book.secrets.get(call_id, set())
        at = int(request.headers["webhook-timestamp"])
        good = {sign_standard(secret, delivery, at, request.body) for secret in known}
        if known and not good & set(request.headers["webhook-signature"].split(" ")):
            self._book.violate(f"P-12: {delivery} is not signed with what its tool was told")
