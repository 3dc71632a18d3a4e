"""Sessions whose messages are of several eras, some of them under ids that a client made without its era."""

from msgspec.structs import replace

from asyncagents.domain.fact import Admit
from asyncagents.domain.id import MessageId, SessionId
from tests.support.store.lab import Lab

BEGAN = 26 << 36
"""2026-08-14: the first era of which ids of ours are there. They do not name it."""
WRAP = 27 << 36
"""2028-10-17: from here on ids name their era."""
IN_2029, IN_2031, IN_2040 = 1_877_000_000_000, 1_940_000_000_000, 2_224_000_000_000


def bare_id(now: int, end: str = "B" * 14, prefix: str = "msg") -> MessageId:
    """An id as OpenCode's terminal makes it, at any time."""
    return MessageId(f"{prefix}_{now * 4096 + 1 & (1 << 48) - 1:012x}{end}")


def build_named_input(lab: Lab, session_id: SessionId, message_id: MessageId, text: str = "hello") -> Admit:
    """A prompt under an id that its client made."""
    fact = lab.input(session_id, text)
    parts = tuple(replace(part, message_id=message_id) for part in fact.parts)
    message = replace(fact.message, id=message_id)
    return replace(fact, message=message, parts=parts, key=message_id, named=True)


async def prompt_at(lab: Lab, session_id: SessionId, now: int) -> MessageId:
    """A prompt of a terminal at that time, not answered yet."""
    lab.clock.set(now)
    fact = build_named_input(lab, session_id, bare_id(now))
    lab.ids.advance_past(fact.message.id)
    return (await lab.store.admit(fact)).message_id


async def write_talk(lab: Lab, session_id: SessionId, *times: int) -> list[MessageId]:
    """Prompts of a terminal at those times, each answered; the ids of all messages as they were said."""
    said: list[MessageId] = []
    for now in times:
        said.append(await prompt_at(lab, session_id, now))
        lab.clock.advance(500)
        claim = await lab.claim(session_id)
        step = await lab.step(claim)
        await lab.end(claim, step)
        assert await lab.store.rest(claim, 10**6, "done")
        said.append(step.id)
    return said
