"""Runs a store method as one transaction on any database."""

from typing import TypeVar

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.errors import Damaged
from asyncagents.store.tx import Database, Verb

T = TypeVar("T")


class VerbRunner:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def _write(self, verb: Verb[T]) -> T:
        try:
            return await self._database.write(verb)
        except Unreadable as error:
            raise Damaged(str(error)) from error

    async def _write_inline(self, verb: Verb[T]) -> T:
        """Run the verb on the event loop (see ADR 16); only for verbs that touch a few rows."""
        try:
            return await self._database.write(verb, quick=True)
        except Unreadable as error:
            raise Damaged(str(error)) from error

    async def _read_inline(self, verb: Verb[T]) -> T:
        """Run a reading verb on the event loop; only for verbs that touch a few rows."""
        try:
            return await self._database.read(verb, quick=True)
        except Unreadable as error:
            raise Damaged(str(error)) from error

    async def _read(self, verb: Verb[T]) -> T:
        try:
            return await self._database.read(verb)
        except Unreadable as error:
            raise Damaged(str(error)) from error
