"""Makes store methods of verbs: each call is one transaction, on any database."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.errors import Damaged
from asyncagents.store.tx import Database, Tx, Verb

P = ParamSpec("P")
T = TypeVar("T")


class VerbRunner:
    """Runs verbs on a database. An `inline` verb touches few rows and runs on the event loop (see ADR 16)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _write(self, verb: Verb[T], *, inline: bool = False) -> T:
        try:
            return await self._database.write(verb, inline=inline)
        except Unreadable as error:
            raise Damaged(str(error)) from error

    async def _read(self, verb: Verb[T], *, inline: bool = False) -> T:
        try:
            return await self._database.read(verb, inline=inline)
        except Unreadable as error:
            raise Damaged(str(error)) from error


class VerbMethod(Generic[P, T]):
    """A method of a `VerbRunner` that runs one verb; it has the verb's parameters and docstring."""

    def __init__(
        self, verb: Callable[Concatenate[Tx, P], Awaitable[T]], *, writes: bool, inline: bool
    ) -> None:
        update_wrapper(self, verb)
        self._verb = verb
        self._writes = writes
        self._inline = inline

    def __set_name__(self, owner: type[VerbRunner], name: str) -> None:
        self.__name__ = name
        self.__qualname__ = f"{owner.__qualname__}.{name}"

    @overload
    def __get__(self, runner: None, owner: type[VerbRunner]) -> Self: ...
    @overload
    def __get__(self, runner: VerbRunner, owner: type[VerbRunner]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(
        self, runner: VerbRunner | None, owner: type[VerbRunner]
    ) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        return self if runner is None else MethodType(self, runner)

    def __call__(self, runner: VerbRunner, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        def run(tx: Tx) -> Awaitable[T]:
            return self._verb(tx, *args, **kwargs)

        run.__qualname__ = self.__qualname__
        start = runner._write if self._writes else runner._read
        return start(run, inline=self._inline)


def write_verb(verb: Callable[Concatenate[Tx, P], Awaitable[T]], *, inline: bool = False) -> VerbMethod[P, T]:
    """Make a method that runs the verb in a transaction that may write."""
    return VerbMethod(verb, writes=True, inline=inline)


def read_verb(verb: Callable[Concatenate[Tx, P], Awaitable[T]], *, inline: bool = False) -> VerbMethod[P, T]:
    """Make a method that runs the verb on one consistent state of the database."""
    return VerbMethod(verb, writes=False, inline=inline)
