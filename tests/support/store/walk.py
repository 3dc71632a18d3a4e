"""A seeded walk over the verbs of a store: plausible, in any order, as runs and people would call them."""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.call.call import Answers, Call, CallState, Once, Reject, Reply, Requested, Running
from asyncagents.domain.conversation.copy import copy_conversation
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.part import PartTime, TextPart
from asyncagents.domain.conversation.session import NewSession, SessionChanges
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import CallMove
from asyncagents.errors import SessionBusy
from tests.support.store.lab import ALICE, POOL, PROJECT, Lab, Step, ask_id, completed_result

MAX_SESSIONS = 6


class Walk:
    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.rng = random.Random(seed)
        self.leases: dict[SessionId, Claim] = {}
        self.steps: dict[SessionId, Step] = {}
        self.texts: dict[SessionId, TextPart] = {}

    async def go(self, steps: int) -> None:
        for _ in range(steps):
            self.lab.clock.advance(self.rng.choice([0, 0, 1, 40]))
            await self.rng.choice(self._moves())()

    def _moves(self) -> list[Callable[[], Awaitable[None]]]:
        rare = [self.create, self.delete, self.cancel, self.release, self.crash, self.retitle]
        often = [
            self.prompt,
            self.prompt,
            self.claim,
            self.step,
            self.write,
            self.end,
            self.move,
            self.finish,
        ]
        return [*rare, *often, *often, self.settle, self.answer, self.expire, self.stop, self.stop]

    async def _any_session(self) -> SessionId:
        known = await self.lab.store.sessions(PROJECT)
        return self.rng.choice(known).id if known else await self.lab.session()

    def _any_lease(self) -> Claim | None:
        return self.rng.choice(list(self.leases.values())) if self.leases else None

    async def create(self) -> None:
        known = await self.lab.store.sessions(PROJECT)
        if len(known) < MAX_SESSIONS:
            parent = self.rng.choice(known).id if known and self.rng.random() < 0.5 else None
            await self.lab.session(parent=parent)

    async def delete(self) -> None:
        if self.rng.random() < 0.3:
            for gone in await self.lab.store.delete_session(await self._any_session()):
                self._over(gone)

    async def retitle(self) -> None:
        await self.lab.store.conversation.update_session(
            await self._any_session(), SessionChanges(title=f"title {self.rng.randrange(9)}")
        )

    async def prompt(self) -> None:
        source = self.rng.choice(["person", "system"])
        wakes = self.rng.random() < 0.9
        await self.lab.prompt(await self._any_session(), wakes=wakes, source=source)  # type: ignore[arg-type]

    async def claim(self) -> None:
        for active in await self.lab.store.active_sessions(POOL):
            if active.state == "ready":
                self.leases[active.session_id] = await self.lab.claim(active.session_id)

    async def crash(self) -> None:
        """Its process dies; another takes up what it left."""
        if claim := self._any_lease():
            self._over(claim.session_id)
            self.leases[claim.session_id] = await self.lab.claim(claim.session_id, ALICE, dead=ALICE)

    async def release(self) -> None:
        if claim := self._any_lease():
            await self.lab.store.release(claim)
            self._over(claim.session_id)

    async def step(self) -> None:
        claim = self._any_lease()
        if claim is None or claim.session_id in self.steps:
            return
        snapshot = await self.lab.store.snapshot(claim)
        if snapshot.executing_calls or snapshot.requested_calls or not (snapshot.unread or snapshot.step):
            return
        new = self.lab.new_step()
        started = await self.lab.store.start_step(claim, new)
        if started is not None:
            self.steps[claim.session_id] = Step(started, new.request_id)

    async def write(self) -> None:
        claim = self._any_lease()
        if claim is None or claim.session_id not in self.steps:
            return
        part = self.texts.get(claim.session_id) or self.lab.text(self.steps[claim.session_id], "")
        part = replace(part, text=part.text + "la ")
        self.texts[claim.session_id] = part
        await self.lab.write(claim, part)

    async def end(self) -> None:
        claim = self._any_lease()
        if claim is None or claim.session_id not in self.steps:
            return
        step = self.steps.pop(claim.session_id)
        text = self.texts.pop(claim.session_id, None) or self.lab.text(step, "la")
        turn = (await self.lab.store.control(claim.session_id)).turn
        calls = [self.lab.call(step, turn=turn) for _ in range(self.rng.choice([0, 1, 3]))]
        error = api_error("overloaded", is_retryable=False) if not calls and self.rng.random() < 0.2 else None
        end = self.lab.step_end(step, *calls, error=error)
        closed = replace(
            text, time=PartTime(start=text.time.start if text.time else 0, end=self.lab.clock.now())
        )
        end = replace(end, parts=(closed,), events=self.lab.part_events(closed))
        await self.lab.store.finish_step(claim, end)

    async def _any_call(self, claim: Claim) -> Call | None:
        calls = (await self.lab.store.snapshot(claim)).calls
        return self.rng.choice(calls) if calls else None

    async def move(self) -> None:
        claim = self._any_lease()
        call = await self._any_call(claim) if claim else None
        if claim is None or call is None or call.blocks_session:
            return
        due = self.rng.choice([None, self.lab.clock.now() + 30])
        states: list[CallState] = [
            Running(claim.fence),
            self.lab.open_state(due=due),
            self.lab.open_state("wait", due=due),
            self.lab.ask(call.session_id, due=due),
            self.lab.question(call.session_id),
            Requested(),
        ]
        await self.lab.store.advance(claim, (CallMove(call.id, self.rng.choice(states)),))

    async def finish(self) -> None:
        claim = self._any_lease()
        call = await self._any_call(claim) if claim else None
        if claim is not None and call is not None and isinstance(call.state, Running):
            facts = (self.lab.input(await self._any_session(), source="system"),)
            await self.lab.store.finish_call(
                claim, call.id, completed_result(), facts[: self.rng.randrange(2)]
            )

    async def _open_calls(self) -> list[Call]:
        known = await self.lab.store.sessions(PROJECT)
        return [call for info in known for call in await self.lab.store.open_calls(info.id)]

    async def settle(self) -> None:
        if calls := [call for call in await self._open_calls() if not call.blocks_session]:
            await self.lab.store.settle(self.rng.choice(calls).id, completed_result())

    async def answer(self) -> None:
        if calls := [call for call in await self._open_calls() if call.blocks_session]:
            call = self.rng.choice(calls)
            yes: Reply = Once() if call.open and call.open.ask else Answers((("red",),))
            await self.lab.store.answer(ask_id(call), self.rng.choice([yes, Reject(), Reject("why?")]))

    async def expire(self) -> None:
        await self.lab.store.expire()

    async def cancel(self) -> None:
        await self.lab.store.cancel(await self._any_session())

    async def stop(self) -> None:
        """Park or rest, as the rows say."""
        claim = self._any_lease()
        if claim is None or claim.session_id in self.steps:
            return
        snapshot = await self.lab.store.snapshot(claim)
        seen = snapshot.control.wake_seq
        if snapshot.is_cancelled:
            stopped = await self.lab.store.rest(claim, seen, "aborted")
        elif snapshot.in_crash_loop:
            stopped = await self.lab.store.rest(claim, seen, "crash_loop")
        elif (
            snapshot.executing_calls
            or snapshot.requested_calls
            or snapshot.abandoned_calls
            or snapshot.unread
        ):
            return
        elif snapshot.open_calls:
            stopped = await self.lab.store.park(claim, seen)
        else:
            stopped = await self.lab.store.rest(claim, seen, "done")
        assert stopped
        self._over(claim.session_id)

    def _over(self, session_id: SessionId) -> None:
        self.leases.pop(session_id, None)
        self.steps.pop(session_id, None)
        self.texts.pop(session_id, None)


class TalkWalk(Walk):
    def _moves(self) -> list[Callable[[], Awaitable[None]]]:
        return [*super()._moves(), self.fork, self.cut, self.cut, self.cut_part, self.rename]

    async def rename(self) -> None:
        change = SessionChanges(title=f"title {self.rng.randrange(9)}", archived=self.rng.choice([None, 5]))
        await self.lab.store.conversation.update_session(await self._any_session(), change)

    async def fork(self) -> None:
        if len(await self.lab.store.sessions(PROJECT)) < MAX_SESSIONS:
            source = await self.lab.store.conversation.copy_source(await self._any_session())
            info = self.lab.info()
            copy = copy_conversation(source.messages, to=info.id, ids=self.lab.ids, now=self.lab.clock.now())
            await self.lab.store.conversation.copy_session(NewSession(info=info, pool=POOL), copy)

    async def cut(self) -> None:
        session_id = await self._any_session()
        entries = await self.lab.store.messages(session_id)
        if entries:
            with suppress(SessionBusy):
                gone = self.rng.choice(entries).info.id
                await self.lab.store.conversation.remove_message(session_id, gone)

    async def cut_part(self) -> None:
        session_id = await self._any_session()
        entries = [each for each in await self.lab.store.messages(session_id) if each.parts]
        if entries:
            entry = self.rng.choice(entries)
            part_id = self.rng.choice(entry.parts).id
            assert part_id is not None
            with suppress(SessionBusy):
                await self.lab.store.conversation.remove_part(session_id, entry.info.id, part_id)
