"""The database's clock, as it is known here: machines disagree, and what is due must be due for all alike."""

from asyncagents.domain.port import Clock


class StoreClock:
    """This machine's, put right by what the database last said."""

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._ahead = 0

    def now(self) -> int:
        return self._local.now() + self._ahead

    def local(self) -> int:
        return self._local.now()

    def learn(self, told: int, *, asked: int, heard: int) -> None:
        """`told` was true at some moment between the question and the answer, by this machine's clock."""
        if not asked <= told - self._ahead <= heard:
            self._ahead = told - (asked + heard) // 2
