"""Worlds of calls whose results come from outside: what is drawn for one, and what becomes of each call."""

import random

from msgspec import Struct

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.call import Completed, Failed, Result

PARKS = 2_000_000
"""Seeds from here on are such worlds."""
WHO = "the ministers"
DEADLINES = (None, None, 3.0, 8.0, 30.0, 30.0, 120.0, 300.0, 500.0)
WISHES = {
    "job": 24, "errand": 14, "build": 14, "deploy": 8, "old": 6, "survey": 6, "nap": 10,
    "look": 8, "pay": 5, "quiz": 5, "boom": 2, "task": 6, "asyncagents_task": 6,
}  # fmt: skip
"""The tools, and how often they are called."""
BEGUN = {"job": 90.0, "errand": None, "build": 150.0, "deploy": 86_400.0, "survey": 60.0}
"""Those that are known to be async before they run, and how long they are waited for if nobody says."""
SENT_OUT = (*BEGUN, "old", "nap")
CANCELLED = Failed("cancelled")
BAD = "bad "
"""What a build does not take."""


class Park(Struct, frozen=True, kw_only=True):
    """What is drawn for one such world."""

    limits: DelegationConfig
    launches: bool
    """Whether sessions have others work for them."""
    calls: int
    """How many calls a session makes at most."""
    dark: float
    """So long no process is there at all, once."""
    deletes: bool
    keep: float
    """So many seconds a settled call can be asked for."""
    rotates: bool


def park(seed: int) -> Park:
    rng = random.Random(f"park:{seed}")
    return Park(
        limits=DelegationConfig(tools="both", depth=1, concurrent=rng.choice([1, 3]), spawns=3, seconds=None),
        launches=rng.random() < 0.35,
        calls=rng.choice([5, 10, 16]),
        dark=rng.choice([0, 0, 0, 12, 45, 140]),
        deletes=rng.random() < 0.1,
        keep=rng.choice([30, 200]) if rng.random() < 0.15 else 30 * 86_400,
        rotates=rng.random() < 0.2,
    )


class Send(Struct, frozen=True):
    """Somebody outside says what became of a call."""

    after: float
    """Seconds since its tool was started."""
    result: Result
    insists: bool
    """It is said again until it is acknowledged."""


class Errand(Struct, frozen=True, kw_only=True):
    """What an async tool does, and what the outside makes of it."""

    begins: float
    """So long the tool works before it says that it waits."""
    seconds: float | None
    on_due: Result | None
    webhook: str
    """Who is told that it is settled."""
    secret: str
    """What that is signed with; nothing: the call's own."""
    sends: tuple[Send, ...]


def errand(seed: int, call_id: str, *, timer: bool = False) -> Errand:
    """The same for every run of a call."""
    rng = random.Random(f"errand:{seed}:{call_id}")
    begins = rng.choice([0, 0, 0.4, 2.5, 6]) * rng.random()
    seconds = rng.choice([1.0, 5.0, 25.0] if timer else DEADLINES)
    on_due = rng.choice([None, None, None, Completed(f"nobody objected to {call_id}")])
    due = begins + (seconds or 50)
    often = rng.random() < 0.15 if timer else rng.random() < 0.9
    sends = _sends(rng, call_id, begins, due) if often else ()
    webhook = f"https://hooks.example/{call_id}" if rng.random() < 0.3 and not timer else ""
    own = "whsec_" + "QUJD" * 8 if rng.random() < 0.5 else ""
    return Errand(begins=begins, seconds=seconds, on_due=on_due, webhook=webhook, secret=own, sends=sends)


def _sends(rng: random.Random, call_id: str, begins: float, due: float) -> tuple[Send, ...]:
    ones: list[Result] = [
        Completed(f"result of {call_id}"),
        Completed(f"result of {call_id}", "Done", {"n": 1.0, "of": call_id}),
        Failed(f"{call_id} broke"),
    ]
    others: list[Result] = [Completed(f"other result of {call_id}"), CANCELLED, CANCELLED]
    one, other = rng.choice(ones), rng.choice(others)
    quick = rng.choice([0, begins / 2, begins, begins + 0.01, begins + 3 * rng.random()])
    late = due + rng.choice([0.001, 0.5, 40])
    at = rng.choice([quick, quick, quick, rng.random() * 9, rng.random() * 40, due, late])
    again = at + rng.choice([0, 0, 0.02, 6])
    bad = Completed(f"{BAD}result of {call_id}")
    said: list[tuple[float, Result]] = rng.choice(
        [
            [(at, one)],
            [(at, one), (again, one)],
            [(at, one), (at, one), (at, one), (again, one)],
            [(at, one), (again, other)],
            [(at, other), (again, one), (again, other)],
            [(at, other)],
            [(at, bad), (at, one), (again, bad)],
            [(at, one), (at, other), (again, one), (again + 9, other)],
        ]
    )
    return tuple(Send(when, what, rng.random() < 0.6) for when, what in said)


def wishes(rng: random.Random, *, launches: bool) -> list[str]:
    """The tools that one step calls, side by side."""
    many = rng.choice([1, 1, 2, 2, 3, 4, 5])
    tools = rng.choices(list(WISHES), list(WISHES.values()), k=many)
    return [tool if launches or "task" not in tool else "job" for tool in tools]
