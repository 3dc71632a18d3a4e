"""Webhooks in virtual time: posted at least once, whatever crashes; given up only after days."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.domain.call.webhook import Delivery
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.webhook.delivery import (
    DeliveryResponse,
    SendWebhook,
    SignedRequest,
    Unreachable,
    WebhookResponse,
)
from asyncagents.engine.webhook.delivery_loop import MAX_TRIES
from asyncagents.llm.scripted import ScriptedModel, call, say
from asyncagents.testing.clock import SeededRng
from asyncagents.testing.process import Machine, Odds, Process
from asyncagents.testing.simloop import SimLoop
from tests.support.tool import build_pending_tool

MINUTE, HOUR = 60, 3_600
SCRIPT = {"ship": [[call("deploy")], [say("Shipped.")]]}
TOOL = build_pending_tool("deploy", webhook_url="https://hooks.test/", seconds=None)


class Stand:
    def __init__(self, path: Path, send: SendWebhook, *, seed: int = 1, odds: Odds | None = None) -> None:
        self.machine = Machine(path / f"{seed}.db", seed, odds or Odds(SeededRng(seed)))
        self._setup = Setup(model=ScriptedModel(SCRIPT), open_workplaces=fixed_tools([TOOL]), post=send)
        self._number = 0

    def begin(self, group: asyncio.TaskGroup) -> Process:
        self._number += 1
        process = Process(self.machine, self._number, lambda process: self._setup)
        group.create_task(process.live())
        return process

    async def later(self, group: asyncio.TaskGroup) -> tuple[Delivery, ...]:
        """A process now and then, for days; time in which nobody runs costs nothing."""
        known: tuple[Delivery, ...] = ()
        for _ in range(10):
            process, runtime = await self.start(group)
            await asyncio.sleep(2 * MINUTE)
            known = await runtime.deliveries.list()
            process.stop()
            await process.over.wait()
            await asyncio.sleep(27 * HOUR)
        return known

    async def start(self, group: asyncio.TaskGroup) -> tuple[Process, Runtime]:
        process = self.begin(group)
        await process.started.wait()
        assert process.runtime is not None
        return process, process.runtime


async def settled(runtime: Runtime) -> None:
    session = await runtime.create_session(directory="/project")
    await runtime.prompt(session.id, "ship")
    (waiting,) = await runtime.async_tools.waiting_calls(session.id)
    await runtime.async_tools.submit_result(waiting.id, "v2")


async def ended(runtime: Runtime, *, every: float) -> Delivery:
    while (known_delivery := (await runtime.deliveries.list())[0]).state == "owed":  # noqa: ASYNC110  time is virtual
        await asyncio.sleep(every)
    return known_delivery


@pytest.mark.spec("P-12")
def test_a_crash_between_post_and_record_posts_again_under_the_same_id(tmp_path: Path) -> None:
    posted: list[tuple[float, str]] = []
    crash: list[Process] = []

    async def post(request: SignedRequest) -> DeliveryResponse:
        posted.append((asyncio.get_running_loop().time(), request.headers["webhook-id"]))
        if crash:
            crash.pop().crash()
        return WebhookResponse(200)

    stand = Stand(tmp_path, post)

    async def play() -> Delivery:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            crash.append(process)
            await settled(runtime)
            await process.over.wait()
            process, runtime = await stand.start(group)
            known_delivery = await ended(runtime, every=1)
            process.stop()
        return known_delivery

    known_delivery = SimLoop(1, max_steps=20_000).run(play)
    (first, one), (second, other) = posted
    assert one == other == known_delivery.id
    assert known_delivery.attempts == 2
    assert MINUTE - 1 <= second - first <= 2 * MINUTE


@pytest.mark.spec("P-12")
def test_a_receiver_that_was_down_gets_its_webhook_when_it_is_up(tmp_path: Path) -> None:
    tried: list[float] = []

    async def post(request: SignedRequest) -> DeliveryResponse:
        tried.append(asyncio.get_running_loop().time())
        return (
            WebhookResponse(200) if tried[-1] > 20 * MINUTE else Unreachable("it cannot be reached: refused")
        )

    stand = Stand(tmp_path, post)

    async def play() -> Delivery:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            await settled(runtime)
            known_delivery = await ended(runtime, every=MINUTE)
            process.stop()
        return known_delivery

    known_delivery = SimLoop(1, max_steps=2_000_000).run(play)
    assert known_delivery.state == "delivered"
    assert known_delivery.attempts == 4
    assert len(tried) == 4


@pytest.mark.spec("P-12")
def test_a_receiver_that_never_comes_back_is_given_up_after_ten_tries(tmp_path: Path) -> None:
    tried: list[float] = []

    async def post(request: SignedRequest) -> DeliveryResponse:
        tried.append(asyncio.get_running_loop().time())
        return WebhookResponse(503, 1.0)

    stand = Stand(tmp_path, post)

    async def play() -> tuple[Delivery, ...]:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            await settled(runtime)
            process.stop()
            await process.over.wait()
            return await stand.later(group)

    (known_delivery,) = SimLoop(1, max_steps=2_000_000).run(play)
    assert known_delivery.state == "dead"
    assert known_delivery.attempts == 10
    assert len(tried) == 10
    assert known_delivery.error == "the receiver answered 503; given up after 10 tries"


def test_a_webhook_that_ends_its_process_each_time_is_given_up(tmp_path: Path) -> None:
    posted: list[str] = []
    processes: list[Process] = []

    async def post(request: SignedRequest) -> DeliveryResponse:
        posted.append(request.headers["webhook-id"])
        processes[-1].crash()
        return WebhookResponse(200)

    stand = Stand(tmp_path, post)

    async def play() -> tuple[Delivery, ...]:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            processes.append(process)
            await settled(runtime)
            await process.over.wait()
            for _ in range(MAX_TRIES - 1):
                await asyncio.sleep(HOUR)
                processes.append(stand.begin(group))
                await processes[-1].over.wait()
            await asyncio.sleep(HOUR)
            process, runtime = await stand.start(group)
            await ended(runtime, every=1)
            process.stop()
            return await runtime.deliveries.list()

    (known_delivery,) = SimLoop(1, max_steps=2_000_000).run(play)
    assert known_delivery.state == "dead"
    assert len(posted) == MAX_TRIES
    assert "the sending process died" in (known_delivery.error or "")


class Unsteady:
    """Takes its time and fails at times; counts what it heard, and what came twice at once."""

    def __init__(self, seed: int) -> None:
        self._rng = SeededRng(seed)
        self._busy: Counter[str] = Counter()
        self.heard: Counter[str] = Counter()
        self.doubled: list[str] = []

    async def __call__(self, request: SignedRequest) -> DeliveryResponse:
        key = request.headers["webhook-id"]
        self._busy[key] += 1
        if self._busy[key] > 1:
            self.doubled.append(key)
        try:
            await asyncio.sleep(self._rng.below(14_000) / 1_000)
            if self._rng.below(4) == 0:
                return Unreachable("it cannot be reached: refused")
            self.heard[key] += 1
            return WebhookResponse(200)
        finally:
            self._busy[key] -= 1


async def serve_on(stand: Stand, group: asyncio.TaskGroup, over: asyncio.Event) -> None:
    """Whenever one dies, the next is started."""
    while not over.is_set():
        process = stand.begin(group)
        stop = group.create_task(over.wait())
        end = group.create_task(process.over.wait())
        await asyncio.wait((stop, end), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        process.stop()
        await end


@pytest.mark.spec("P-12")
@pytest.mark.parametrize("seed", range(8))
def test_every_webhook_is_delivered_by_one_process_at_a_time_under_crashes(tmp_path: Path, seed: int) -> None:
    """Two processes on one file, commits that fail or end their process, a receiver that fails at times."""
    odds = Odds(SeededRng(seed), crash=250, fail=100)
    odds.on = False
    receiver = Unsteady(seed + 1_000)
    stand = Stand(tmp_path, receiver, seed=seed, odds=odds)

    async def play() -> tuple[Delivery, ...]:
        async with asyncio.TaskGroup() as group:
            process, runtime = await stand.start(group)
            for _ in range(6):
                await settled(runtime)
            odds.on, over = True, asyncio.Event()
            servers = [group.create_task(serve_on(stand, group, over)) for _ in range(2)]
            await asyncio.sleep(6 * MINUTE)
            odds.on = False
            over.set()
            process.stop()
            await asyncio.wait(servers)
            return await stand.later(group)

    known = SimLoop(seed, max_steps=5_000_000).run(play)
    assert [each.state for each in known] == ["delivered"] * 6
    assert all(receiver.heard[each.id] for each in known)
    assert receiver.doubled == []
    assert stand.machine.crashes
