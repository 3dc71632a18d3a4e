"""An estimate of the database's clock: clocks of machines differ, and due times must be the same for all."""

from asyncagents.domain.clock import Clock


class StoreClock:
    """This machine's clock, corrected by the time that the database last reported."""

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = 0

    def now(self) -> int:
        return self._local.now() + self._ahead

    def local(self) -> int:
        return self._local.now()

    def learn(self, time: int, *, asked: int, heard: int) -> None:
        """Correct the clock: the database read `time` between `asked` and `heard` of this machine's clock."""
        if not asked <= time - self._ahead <= heard:
            self._ahead = time - (asked + heard) // 2
