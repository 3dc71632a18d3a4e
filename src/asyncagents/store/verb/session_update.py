"""Updates what clients may change of a session: title, metadata, rules, archived, servers."""

from msgspec import UNSET
from msgspec.structs import replace

from asyncagents.domain.conversation.session import Rule, Session, SessionChanges
from asyncagents.domain.id import SessionId
from asyncagents.store.row import require_session, save_session, with_updated_time
from asyncagents.store.tx import Tx


async def update_session(tx: Tx, session_id: SessionId, new: SessionChanges) -> Session:
    row = await require_session(tx, session_id)
    info = row.info
    if new.title is not None:
        info = replace(info, title=new.title)
    if new.archived is not UNSET:
        info = replace(info, time=replace(info.time, archived=new.archived))
    if new.metadata is not None:
        info = replace(with_updated_time(info, tx.now), metadata=new.metadata)
    if new.permission:
        info = replace(
            with_updated_time(info, tx.now), permission=_keep_last(*(info.permission or ()), *new.permission)
        )
    if new.mcp_servers is not None:
        info = replace(info, mcp_servers=new.mcp_servers)
    if info == row.info:
        return info
    return (await save_session(tx, row, row.control, info)).info


def _keep_last(*rules: Rule) -> tuple[Rule, ...]:
    """Keep only the last occurrence of each rule."""
    return tuple(reversed(dict.fromkeys(reversed(rules))))
