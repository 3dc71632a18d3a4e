"""Updates what clients may change of a session: title, metadata, rules, archived."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.id import SessionId
from asyncagents.store.row import save, the_session, touched
from asyncagents.store.tx import Tx


class Change(Struct, frozen=True, kw_only=True):
    """Changes to a session; fields with their default stay as they are."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    """Replaces the metadata."""
    permission: tuple[Rule, ...] = ()
    """Appended to the session's rules: the last that matches wins, within the rules of its lineage."""
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
    """Keep only the last occurrence of each rule."""
    return tuple(reversed(dict.fromkeys(reversed(rules))))
