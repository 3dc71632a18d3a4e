"""Sessions as clients see them, and what creates, finds, changes and titles them."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from asyncagents.domain.clock import Rng
from asyncagents.domain.conversation.mcp_server import SessionMcpServer
from asyncagents.domain.id import MessageId, PartId, RequestId, SessionId
from asyncagents.domain.shape import Shape


class CacheTokens(Shape, frozen=True, kw_only=True):
    read: int
    write: int


class Tokens(Shape, frozen=True, kw_only=True):
    """`input` leaves out cached tokens, `output` leaves out reasoning."""

    input: int
    output: int
    reasoning: int
    cache: CacheTokens
    total: int | None = None

    @staticmethod
    def zero() -> "Tokens":
        return Tokens(input=0, output=0, reasoning=0, cache=CacheTokens(read=0, write=0))

    def plus(self, other: "Tokens") -> "Tokens":
        """Add up; the sum has a total only if both have one (a session's running sum has none)."""
        known = self.total is not None and other.total is not None
        cache = CacheTokens(
            read=self.cache.read + other.cache.read,
            write=self.cache.write + other.cache.write,
        )
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache=cache,
            total=(self.total or 0) + (other.total or 0) if known else None,
        )


TITLE_LENGTH = 60
_DEFAULT_TITLE = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


class Rule(Shape, frozen=True, kw_only=True, cache_hash=True):
    """A permission rule: `action` applies to requests for `permission` that match `pattern`."""

    permission: str
    pattern: str
    action: Literal["allow", "deny", "ask"]


class SessionTime(Shape, frozen=True, kw_only=True):
    created: int
    updated: int
    compacting: int | None = None
    archived: int | None = None


class SessionModel(Shape, frozen=True, kw_only=True):
    """The model of a session; the wire name is `id` here and `modelID` in a message."""

    id: str
    provider_id: str
    variant: str | None = None


class FileDiff(Shape, frozen=True, kw_only=True):
    additions: int
    deletions: int
    file: str | None = None
    patch: str | None = None
    status: Literal["added", "deleted", "modified"] | None = None


class SessionSummary(Shape, frozen=True, kw_only=True):
    additions: int
    deletions: int
    files: int
    diffs: tuple[FileDiff, ...] | None = None


class Share(Shape, frozen=True, kw_only=True):
    url: str


class Revert(Shape, frozen=True, kw_only=True):
    """An undo from this message or part on; it can be redone until the next input."""

    message_id: MessageId
    part_id: PartId | None = None
    snapshot: str | None = None
    """The snapshot of the files before the undo."""
    diff: str | None = None
    """The diff of the restored files; None, with a snapshot: the restore is not complete."""
    through: MessageId | None = None
    """The sort id of the last undone message."""
    note: str | None = None
    """Which files were not restored, and why."""

    @property
    def is_unfinished(self) -> bool:
        return self.snapshot is not None and self.diff is None


class LaunchRights(Shape, frozen=True, kw_only=True):
    """The parent's agent and rules when it launched a child; later rights do not extend to the child."""

    agent: str | None = None
    """None: the parent had no agent yet, so its current one counts."""
    permission: tuple[Rule, ...] | None = None
    tools: dict[str, bool] | None = None


class Session(Shape, frozen=True, kw_only=True):
    """One agent's conversation: its title, directory, agent, model and costs, without its messages."""

    id: SessionId
    slug: str
    project_id: str
    directory: str
    title: str
    version: str
    time: SessionTime
    path: str | None = None
    parent_id: SessionId | None = None
    workspace_id: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    summary: SessionSummary | None = None
    share: Share | None = None
    agent: str | None = None
    model: SessionModel | None = None
    metadata: dict[str, Any] | None = None
    permission: tuple[Rule, ...] | None = None
    tools: dict[str, bool] | None = None
    """The newest `tools` map of a prompt; it applies on top of `permission` and lifts no deny."""
    launch_rights: LaunchRights | None = None
    """None: the session has no parent, or an older version created it."""
    revert: Revert | None = None
    mcp_servers: tuple[SessionMcpServer, ...] = ()
    """Servers that the session was given, besides those of its directory; its children use them, too."""


def record_launch(child: Session, parent: Session, *, agent: str | None) -> Session:
    """Record the parent's current rights in a child that `agent` launches."""
    rights = LaunchRights(agent=agent, permission=parent.permission, tools=parent.tools)
    return replace(child, launch_rights=rights)


def recall_launch(parent: Session, rights: LaunchRights) -> Session:
    """Return the parent with the rights that it had when it launched a child."""
    agent = rights.agent or parent.agent
    return replace(parent, agent=agent, permission=rights.permission, tools=rights.tools)


def default_title(now_ms: int, child: bool) -> str:
    """Build the title of a new session; only such titles are replaced later."""
    seconds, ms = divmod(now_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{'Child' if child else 'New'} session - {moment}.{ms:03d}Z"


def is_default_title(title: str) -> bool:
    return _DEFAULT_TITLE.fullmatch(title) is not None


def title_from(text: str) -> str | None:
    """Build a title from the first prompt: its first non-empty line, cut at a word; None if there is none."""
    line = next((" ".join(each.split()) for each in text.splitlines() if each.strip(" \t#>*-`")), "")
    line = line.strip("#>*-` ")
    if len(line) <= TITLE_LENGTH:
        return line or None
    head = line[:TITLE_LENGTH]
    return (head.rsplit(" ", 1)[0] if " " in head[TITLE_LENGTH // 2 :] else head).rstrip(" ,.;:") + "…"


_QUALITIES = (
    "amber", "brisk", "calm", "clear", "crisp", "deep", "early", "fair", "gentle", "keen", "level", "light",
    "mild", "neat", "open", "plain", "prime", "quick", "sharp", "steady", "still", "sunny", "swift", "warm",
)  # fmt: skip
_THINGS = (
    "birch", "bridge", "canyon", "cedar", "cliff", "delta", "ember", "field", "fjord", "heron",
    "island", "maple", "meadow", "orchard", "pebble", "reef", "ridge", "river", "summit", "valley",
)  # fmt: skip


def random_slug(rng: Rng) -> str:
    """Generate a readable name such as `calm-river`; not unique."""
    return f"{_QUALITIES[rng.below(len(_QUALITIES))]}-{_THINGS[rng.below(len(_THINGS))]}"


def project_id(directory: str) -> str:
    """Derive the id of a project from its directory."""
    return hashlib.sha1(directory.encode(), usedforsecurity=False).hexdigest()


FOREVER = 2**62


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Filters of sessions; without a directory, sessions of all directories."""

    directory: str | None = None
    below: str | None = None
    """Only sessions of this directory and those below it."""
    roots: bool = False
    """Only sessions without a parent."""
    start: int = 0
    """Only sessions updated at or after this time, in ms since the epoch."""
    before: int = FOREVER
    """Only sessions updated before this time."""
    search: str = ""
    """A part of the title, ignoring case."""
    archived: bool = True
    """Include archived sessions."""
    limit: int = 100


class SessionChanges(Struct, frozen=True, kw_only=True):
    """Changes to a session; fields with their default stay as they are."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    """Replaces the metadata."""
    permission: tuple[Rule, ...] = ()
    """Appended to the session's rules: the last that matches wins, within the rules of its lineage."""
    archived: int | UnsetType | None = UNSET
    mcp_servers: tuple[SessionMcpServer, ...] | None = None
    """Replaces the MCP servers."""


class NewSession(Struct, frozen=True, kw_only=True):
    info: Session
    pool: str
    key: str | None = None
    hash: str | None = None
    """The hash of the content that the caller gave under the key."""


class TitleEnd(Struct, frozen=True, kw_only=True):
    """The end of a request for a title. Without reported tokens the estimate is charged."""

    session_id: SessionId
    request_id: RequestId
    before: str
    """The title before the request; if it has changed since, a person set it, and it stays."""
    title: str = ""
    tokens: Tokens | None = None
    cost: float = 0
