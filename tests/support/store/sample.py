"""A data directory with something of everything, and all that can be read of a store, to compare."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.config import DelegationConfig
from asyncagents.domain.agent.external_session import ExternalSession
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.event import PermissionAsked, TaskCompleted
from asyncagents.domain.id import Ids, OwnerId, SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import NewStep
from asyncagents.domain.task.board import TaskQuery
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool, Ask, Tool, ToolContext
from asyncagents.engine.webhook.delivery import DeliveryResponse, SignedRequest, WebhookResponse
from asyncagents.llm.scripted import call, pause, say
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.postgres.move_from_sqlite import TABLES
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from asyncagents.store.store import Store
from asyncagents.store.tx import Database
from asyncagents.tools.builtin.todo import todowrite
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    launch_task,
    open_delegation_stage,
    wait_for_task_end,
)
from tests.support.runtime import Stage
from tests.support.tool import Gate, TextArguments, build_pending_tool, run_echo
from tests.support.webhook.receiver import LOCAL_WEBHOOKS, wait_until_deliveries

FILE = "asyncagents.db"
DEAD = OwnerId("00000000deadbeef")
NOBODY = "http://127.0.0.1:1/hook"
SAMPLE_SCRIPT: RequestScript = {
    "hello": [[say("Hi.")]],
    "plan": [[call("todowrite", todos=[{"content": "Look"}, {"content": "Leap"}])], [say("Planned.")]],
    "ship": [[call("deploy")], [say("Shipped.")]],
    "report": [[call("deploy")], [say("Reported.")]],
    "careful": [[call("careful", text="a")], [say("With care.")]],
    "always": [[call("careful", text="b")], [say("As ever.")]],
    "delegate": [
        [launch_task("Find it", "look"), launch_task("Await it", "linger")],
        [say("Off.")],
        [say("Told.")],
    ],
    "look": [[call("gate")], [say("Red.")]],
    "linger": [[call("deploy")], [say("Came.")]],
    "stream": [[say("I beg"), pause(3600)]],
    "cut off": [[say("After all.")]],
}


class Rich(Struct, frozen=True):
    """What was done before the move."""

    sessions: dict[str, SessionId]
    """By the text that they began with."""
    first: MessageWithParts
    """What `hello` was answered with."""
    cursor: str


async def fill_store(data: Path) -> Rich:
    """By real runtimes; the last one died while it worked on a session."""
    gate = Gate("gate")
    given = [*tools(), gate.tool]
    async with open_delegation_stage(
        data, SAMPLE_SCRIPT, *given, policy=ask_of_echo, async_tools=LOCAL_WEBHOOKS
    ) as at:
        sessions = {name: (await at.runtime.create_session(directory=data)).id for name in SAMPLE_SCRIPT}
        first = await at.runtime.prompt(sessions["hello"], "hello", key="old key")
        for name in ("plan", "ship", "report", "delegate"):
            await at.runtime.prompt(sessions[name], name)
        await _leave_a_notice(at, gate)
        await _leave_an_ask(at, sessions)
        await _leave_stopped(at, sessions)
    async with open_delegation_stage(data, SAMPLE_SCRIPT, serve=False) as at:
        await at.runtime.delete_session(at.session_id)
        await at.runtime.send(sessions["cut off"], "cut off")
        cursor = await at.runtime.cursor()
    await _left_at_work(data, sessions["cut off"])
    return Rich(sessions, first, cursor)


async def _leave_a_notice(at: Stage, gate: Gate) -> None:
    """The other goes on."""
    gate.go.set()
    await wait_for_task_end(at, "Find it", TaskCompleted)
    await at.listener.until_text("Told.")


async def _leave_an_ask(at: Stage, sessions: dict[str, SessionId]) -> None:
    """One was approved for good, one still waits."""
    always = asyncio.ensure_future(at.runtime.prompt(sessions["always"], "always"))
    asked = await at.listener.until(PermissionAsked)
    await at.runtime.answer(asked.request.id, "always")
    await always
    await at.runtime.send(sessions["careful"], "careful")
    await at.listener.until(PermissionAsked)


async def _leave_stopped(at: Stage, sessions: dict[str, SessionId]) -> None:
    """A stream is aborted; of a result somebody is to be told who cannot be reached yet."""
    await at.runtime.send(sessions["stream"], "stream")
    await at.listener.until_text("I beg")
    await at.runtime.abort(sessions["stream"])
    (waiting,) = await at.runtime.open_calls(sessions["report"])
    await at.runtime.complete(waiting.id, "v1")
    await wait_until_deliveries(at.runtime, lambda each: each.error is not None)
    await at.runtime.wait(sessions["report"])


async def _left_at_work(data: Path, session_id: SessionId) -> None:
    """In the middle of a step."""
    clock, rng = SystemClock(), SystemRng()
    ids = Ids(clock, rng)
    async with open_sqlite(data / FILE, clock=clock, rng=rng, ids=ids) as database:
        taken = await Store(database).claim(session_id, DEAD, dead=None)
        assert taken is not None
        step = NewStep(message_id=ids.message(), part_id=ids.part(), request_id=ids.request(), since=1)
        claim = Claim(session_id, taken.control.fence)
        assert await Store(database).start_step(claim, step)
        external = ExternalSession(
            session_id=session_id, external_id="ext-1", agent="reviewer", command=("opencode", "acp")
        )
        await Store(database).external.save_session(claim, external)


def tools() -> list[AnyTool]:
    async def none(session_id: SessionId) -> tuple[()]:
        return ()

    async def asks(args: TextArguments, context: ToolContext) -> tuple[Ask, ...]:
        return (Ask("echo", (args.text,), always=(args.text,)),)

    plan = todowrite(none, Ids(SystemClock(), SystemRng()))
    return [
        build_pending_tool("deploy", webhook_url=NOBODY),
        Tool("careful", TextArguments, run_echo, plan=asks),
        plan,
    ]


def ask_of_echo(ask: Any, context: Any) -> Any:
    return "ask" if ask.permission == "echo" else "allow"


class Later:
    """A clock of a minute later: what waits for its next try is due."""

    def now(self) -> int:
        return SystemClock().now() + 60_000


@asynccontextmanager
async def reopen_store(data: Path, dsn: str, letters: list[SignedRequest]) -> AsyncIterator[Runtime]:
    """A runtime on the database, a minute later; whoever is to be told takes it now."""

    async def post(request: SignedRequest) -> DeliveryResponse:
        letters.append(request)
        return WebhookResponse(200)

    clock, rng = Later(), SystemRng()
    ids = Ids(clock, rng)
    owners = FlockOwners(data / "elsewhere", f"{rng.below(2**64):016x}")
    workplaces = fixed_tools(tools(), ask_of_echo, DelegationConfig(tools="both"))
    setup = Setup(
        model=RequestScriptModel(SAMPLE_SCRIPT),
        open_workplaces=workplaces,
        async_tools=LOCAL_WEBHOOKS,
        post=post,
    )
    try:
        async with (
            open_postgres(dsn, clock=clock, rng=rng, ids=ids) as database,
            start_runtime(Backend(database, owners, clock, rng, ids), setup) as runtime,
        ):
            yield runtime
    finally:
        owners.close()


async def read_everything(database: Database) -> dict[str, Any]:
    store = Store(database)
    found: dict[str, Any] = {
        "statuses": await store.statuses(),
        "asks": await store.asks(),
        "due": await store.next_due(),
        "live": await store.live_tasks(),
        "page": await store.board.page(TaskQuery()),
        "stats": await store.board.stats(),
        "deliveries": await store.deliveries.list(None, after="", limit=100),
        "waiting": await store.pending.calls("waiting", None, after="", limit=100),
        "keys": await store.pending.secret_keys(),
    }
    for root in await store.roots(limit=100):
        found["approvals"] = await store.approvals(root.project_id)
        for session in (root, *await store.children(root.id)):
            found[session.id] = await _of_session(store, session.id)
    return found


async def _of_session(store: Store, session_id: SessionId) -> dict[str, Any]:
    messages = await store.messages(session_id)
    asked = [entry.info.id for entry in messages if isinstance(entry.info, UserMessage)]
    return {
        "session": await store.session(session_id),
        "control": await store.control(session_id),
        "messages": messages,
        "history": await store.history(session_id),
        "inputs": [await store.input(message_id) for message_id in asked],
        "calls": await store.calls(session_id),
        "open": await store.open_calls(session_id),
        "todos": await store.todos(session_id),
        "tasks": await store.tasks_of(session_id),
    }


def rows_here(data: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(sqlite3.connect(data / FILE)) as file:
        return {table: sorted(file.execute(f"SELECT * FROM {table}"), key=repr) for table in TABLES}  # noqa: S608


async def rows_there(data: Path, dsn: str) -> dict[str, list[tuple[Any, ...]]]:
    """Their columns in the order of the file."""
    with closing(sqlite3.connect(data / FILE)) as file:
        columns = {
            table: ", ".join(row[1] for row in file.execute(f"PRAGMA table_info({table})"))
            for table in TABLES
        }
    found = {}
    for table, names in columns.items():
        rows = await query_postgres(dsn, f"SELECT {names} FROM {table}")  # noqa: S608
        found[table] = sorted((tuple(row) for row in rows), key=repr)
    return found


async def query_postgres(dsn: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(dsn)
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()


async def is_empty(dsn: str) -> bool:
    counts = [await query_postgres(dsn, f"SELECT COUNT(*) FROM {table}") for table in TABLES]  # noqa: S608
    return not any(rows[0][0] for rows in counts)
