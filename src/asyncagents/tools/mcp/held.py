"""Which trees of sessions hold which MCP servers; a tree at rest gives them up after a while."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TypeAlias
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import McpConfig
from asyncagents.domain.id import SessionId
from asyncagents.engine.workplace.session_servers import TreeServers
from asyncagents.tools.mcp.client import ServerSpec

IDLE_SECONDS = 600.0
"""How long a tree keeps its servers after its last use of them."""
MOST_HELD = 256
"""Trees at rest that keep their servers; beyond, those used longest ago give them up at once."""

HoldKey: TypeAlias = tuple[SessionId, str]
"""The root of a tree, and the directory of its sessions."""


class TreeHold(Struct):
    wanted: Mapping[str, McpConfig]
    specs: tuple[ServerSpec, ...]
    used_at: float
    users: WeakSet[object]
    """The runs that use the servers; a run that has ended is gone from here."""


class HeldServers:
    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._holds: OrderedDict[HoldKey, TreeHold] = OrderedDict()

    def known_specs(self, key: HoldKey, wanted: Mapping[str, McpConfig]) -> tuple[ServerSpec, ...] | None:
        """Return the specs that were built for the wanted servers; None: none, or for others."""
        hold = self._holds.get(key)
        return hold.specs if hold is not None and hold.wanted == wanted else None

    def hold(
        self,
        directory: str,
        tree: TreeServers,
        *,
        wanted: Mapping[str, McpConfig],
        specs: tuple[ServerSpec, ...],
        now: float,
    ) -> bool:
        """Keep the servers of a tree for a while. Returns whether any were dropped."""
        key = (tree.root_id, directory)
        before = self._holds.get(key)
        users = before.users if before is not None else WeakSet[object]()
        if tree.user is not None:
            users.add(tree.user)
        self._holds[key] = TreeHold(wanted=wanted, specs=specs, used_at=now, users=users)
        self._holds.move_to_end(key)
        replaced = before is not None and before.specs != specs
        return self._drop_beyond() or replaced

    def retain(self, root_id: SessionId, wanted: Mapping[str, McpConfig]) -> None:
        """Drop the servers of a tree that are not wanted any more, or not like this."""
        for key in [key for key in self._holds if key[0] == root_id]:
            hold = self._holds[key]
            kept = {
                name: config
                for name, config in hold.wanted.items()
                if name in wanted and replace(wanted[name], cwd=config.cwd) == config
            }
            hold.wanted, hold.specs = kept, tuple(spec for spec in hold.specs if spec.name in kept)
            if not kept:
                del self._holds[key]

    def drop_idle(self, now: float) -> bool:
        """Drop what trees at rest have not used for a while. Returns whether something was dropped."""
        keys = [
            key
            for key, hold in self._holds.items()
            if not hold.users and hold.used_at + self._idle_seconds <= now
        ]
        for key in keys:
            del self._holds[key]
        return bool(keys)

    def seconds_to_next(self, now: float) -> float | None:
        """Return when to look for idle trees again; None: nothing is held."""
        if not self._holds:
            return None
        due = min(max(each.used_at, now if each.users else 0.0) for each in self._holds.values())
        return max(self._idle_seconds / 100, due + self._idle_seconds - now)

    def all_specs(self) -> Iterator[ServerSpec]:
        for hold in self._holds.values():
            yield from hold.specs

    def specs_of(self, root_id: SessionId) -> dict[str, ServerSpec]:
        """Return what a tree holds, by name."""
        return {
            spec.name: spec
            for (held, _), hold in self._holds.items()
            if held == root_id
            for spec in hold.specs
        }

    @property
    def directories(self) -> set[str]:
        return {directory for _, directory in self._holds}

    def _drop_beyond(self) -> bool:
        over = len(self._holds) - MOST_HELD
        if over <= 0:
            return False
        resting = [key for key, hold in self._holds.items() if not hold.users][:over]
        for key in resting:
            del self._holds[key]
        return bool(resting)
