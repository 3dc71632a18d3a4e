"""The workplace of a session: that of its directory, with the MCP servers of its tree."""

from asyncagents.domain.conversation.mcp_server import SessionMcpServer
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.workplace.session_servers import SessionServers, TreeServers
from asyncagents.engine.workplace.workplace import Workplace, Workplaces, workplace_at
from asyncagents.store.store import Store


async def working_place(
    store: Store, workplaces: Workplaces, snapshot: Snapshot, *, user: object, working: bool = False
) -> Workplace:
    """Return the workplace of a session that `user` runs; `working`: wait for its MCP servers."""
    session, tree = snapshot.info, None
    assert session is not None, "it comes from a store"
    if workplaces.mcp_control is not None:
        root_id, notes = snapshot.control.root_id, workplaces.mcp_control.session_servers
        servers = await _tree_servers(store, notes, session, root_id)
        tree = TreeServers(root_id=root_id, servers=servers, user=user) if servers else None
    return await workplace_at(workplaces, session.directory, working=working, tree=tree)


async def prompted_place(store: Store, workplaces: Workplaces, session: Session) -> Workplace:
    """Return the workplace of a session that receives a prompt."""
    tree = None
    if workplaces.mcp_control is not None:
        notes = workplaces.mcp_control.session_servers
        if session.mcp_servers:
            tree = TreeServers(root_id=session.id, servers=session.mcp_servers)
        elif session.parent_id is not None and notes.were_seen:
            root_id = (await store.control(session.id)).root_id
            servers = await _tree_servers(store, notes, session, root_id)
            tree = TreeServers(root_id=root_id, servers=servers) if servers else None
    return await workplace_at(workplaces, session.directory, tree=tree)


async def polled_place(store: Store, workplaces: Workplaces, session: Session) -> Workplace:
    """Return the workplace of a session for which an MCP server works; its tree need not have worked here."""
    tree = None
    if workplaces.mcp_control is not None:
        root_id, notes = (await store.control(session.id)).root_id, workplaces.mcp_control.session_servers
        servers = await _tree_servers(store, notes, session, root_id)
        tree = TreeServers(root_id=root_id, servers=servers) if servers else None
    return await workplace_at(workplaces, session.directory, tree=tree)


async def _tree_servers(
    store: Store, notes: SessionServers, session: Session, root_id: SessionId
) -> tuple[SessionMcpServer, ...]:
    """Return the servers of a session's root; its row is read once, if the root has not worked here."""
    if session.id == root_id:
        notes.note_row(root_id, session.mcp_servers)
        return session.mcp_servers
    noted = notes.noted_row(root_id)
    if noted is None:
        noted = (await store.session(root_id)).mcp_servers
        notes.note_row(root_id, noted)
    return noted
