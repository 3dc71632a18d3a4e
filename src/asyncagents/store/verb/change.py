"""What clients change of a session: its title, notes on it, its rules, and whether it is put away."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Rule, Session
from asyncagents.store.row import save, the_session, touched
from asyncagents.store.tx import Tx


class Change(Struct, frozen=True, kw_only=True):
    """What is not said stays as it is."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    """Instead of what was there."""
    permission: tuple[Rule, ...] = ()
    """After those that it has: the last that matches wins, within what those above it may do."""
    archived: int | UnsetType | None = UNSET


async def change(tx: Tx, session_id: SessionId, new: Change) -> Session:
    row = await the_session(tx, session_id)
    info = row.info
    if new.title is not None:
        info = replace(info, title=new.title)
    if new.archived is not UNSET:
        info = replace(info, time=replace(info.time, archived=new.archived))
    if new.metadata is not None:
        info = replace(touched(info, tx.now), metadata=new.metadata)
    if new.permission:
        info = replace(touched(info, tx.now), permission=_last(*(info.permission or ()), *new.permission))
    if info == row.info:
        return info
    return (await save(tx, row, row.control, info)).info


def _last(*rules: Rule) -> tuple[Rule, ...]:
    """Each where it stands last: there it counts, whatever stood before."""
    return tuple(reversed(dict.fromkeys(reversed(rules))))
