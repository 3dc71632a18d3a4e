"""Results of async tools from outside: each call takes one, in any process."""

import asyncio
import logging
from typing import Any

import msgspec

from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import CANCELLED, Call, Completed, Failed, Result
from asyncagents.domain.call.incoming_result import MOST_BYTES, Delivered, claimed_id, read_delivered
from asyncagents.domain.call.pending_tool import PendingStatus, PendingToolCall, ToolResult, pending_tool
from asyncagents.domain.call.signature import Forged, Headers, check, read_claim
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.port import Clock
from asyncagents.engine.call.incoming_webhook import Reach
from asyncagents.engine.input.message import a_text
from asyncagents.engine.observer import UNWATCHED, Watch, see_settled
from asyncagents.engine.tool import Validate
from asyncagents.engine.workplace.workplace import Workplaces, enter
from asyncagents.errors import InvalidInput, NotFound, ResultRefused, Unauthorized, Unavailable
from asyncagents.store.body import body
from asyncagents.store.store import Store

VALIDATE_SECONDS = 60
MOST = 1_000
_log = logging.getLogger(__name__)


class AsyncTools:
    """Get it from a runtime: `runtime.async_tools`. Every result is committed before its method returns."""

    def __init__(
        self,
        *,
        store: Store,
        workplaces: Workplaces,
        reach: Reach,
        clock: Clock,
        watch: Watch = UNWATCHED,
    ) -> None:
        self._watch = watch
        self._store = store
        self._workplaces = workplaces
        self._reach = reach
        self._clock = clock

    async def submit_result(
        self, pending_id: str, output: str, *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> PendingToolCall:
        """Settle a call with its result; the session goes on, here or where it is served.

        The same result again returns the same; another one raises `AlreadySettled`. A result that the tool's
        `validate_result` refuses raises `ResultRefused`, and the call stays open.
        """
        given = a_text(output, "a result"), a_text(title, "a title"), _metadata(metadata)
        result = Completed(*given)
        call = await self._settled(CallId(pending_id), result, unless_checked=True)
        if not call.settled:
            await self._check(call, result)
            call = await self._settled(call.id, result)
        return pending_tool(call)

    async def submit_error(self, pending_id: str, error: str) -> PendingToolCall:
        """Settle a call with an error; the session goes on with that."""
        return await self._settle(CallId(pending_id), Failed(a_text(error, "an error")))

    async def submit(self, sent: Delivered) -> PendingToolCall:
        """Submit a result or an error, as it was read from a request body."""
        match sent.result:
            case Completed(output, title, metadata):
                return await self.submit_result(sent.pending_id, output, title=title, metadata=metadata)
            case Failed(error):
                return await self.submit_error(sent.pending_id, error)

    async def receive(self, headers: Headers, body: bytes) -> PendingToolCall:
        """Verify the signature of a webhook (the body byte for byte) and submit its result.

        Raises `Unauthorized` for everything that is not signed with a secret of the call it names, whether
        that call exists or not; `NotFound` only if the signature is valid and the call is gone.
        """
        claim = read_claim(headers, self._clock.now())
        if isinstance(claim, Forged):
            raise Unauthorized(claim.reason)
        if len(body) > MOST_BYTES:
            raise InvalidInput(f"the body of a webhook may have at most {MOST_BYTES} bytes")
        pending_id = claimed_id(body)
        verdict = check(claim, body, [secret.reveal() for secret in await self.secrets(pending_id)])
        if isinstance(verdict, Forged):
            raise Unauthorized(verdict.reason)
        sent = read_delivered(body)
        if sent.pending_id != pending_id:
            raise InvalidInput("the body names two calls")
        await self._store.pending.call(
            CallId(pending_id)
        )  # a secret that many calls share settles only calls that wait for an outside result
        return await self.submit(sent)

    async def cancel(self, pending_id: str) -> PendingToolCall:
        """Settle a call with the error `cancelled`; the session goes on."""
        return await self._settle(CallId(pending_id), Failed(CANCELLED))

    async def _settle(self, call_id: CallId, result: Completed | Failed) -> PendingToolCall:
        return pending_tool(await self._settled(call_id, result))

    async def _settled(self, call_id: CallId, result: Result, *, unless_checked: bool = False) -> Call:
        began = self._clock.now()
        try:
            call = await self._store.settle(call_id, result, unless_checked=unless_checked)
        except NotFound as error:
            raise NotFound("pending call", call_id) from error
        return await see_settled(self._watch, self._store, call, began)

    async def get(self, pending_id: str) -> PendingToolCall:
        """Read one call; also one that waits for tasks, which takes no outside result."""
        return pending_tool(await self._store.pending.waiting_call(CallId(pending_id)))

    async def waiting_calls(
        self, session_id: SessionId | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[PendingToolCall, ...]:
        """List calls that wait for a result, of one session or all, oldest first, after the id `after`."""
        return await self.list("waiting", session_id, after=after, limit=limit)

    async def list(
        self,
        status: PendingStatus,
        session_id: SessionId | None = None,
        *,
        after: str = "",
        limit: int = 100,
    ) -> tuple[PendingToolCall, ...]:
        if not 0 < limit <= MOST:
            raise InvalidInput(f"limit must be from 1 to {MOST}")
        found = await self._store.pending.calls(status, session_id, after=after, limit=limit)
        return tuple(pending_tool(call) for call in found)

    async def resume(self, pending_id: str) -> Status:
        """Wake the session of a settled call. Settling wakes it already; a further wake does no harm."""
        return await self._store.status(await self._store.pending.resume(CallId(pending_id)))

    async def secrets(self, pending_id: str) -> tuple[Secret, ...]:
        """Return the secrets that may sign the result of a call."""
        return await self._reach.secrets(CallId(pending_id))

    async def rotate_key(self) -> None:
        """Derive secrets of new calls from a new key; secrets that were handed out stay valid."""
        await self._reach.keys.rotate()

    async def _check(self, call: Call, result: Completed) -> None:
        """Run the tool's `validate_result` on a result."""
        copy = _metadata(result.metadata)  # the validator may change what it gets
        told = ToolResult(title=result.title, output=result.output, metadata=copy)
        wrong = await _asked(call, await self._validator(call), told)
        if wrong is not None:
            raise ResultRefused(f"{call.tool} does not take this result: {wrong}")

    async def _validator(self, call: Call) -> Validate:
        session = await self._store.session(call.session_id)
        place = await enter(self._workplaces, session.directory)
        tool = place.tools.get(call.tool)
        if tool is None or tool.lasting is None or tool.lasting.validate is None:
            raise Unavailable(
                f"results of {call.tool} are checked by the tool, which this process does not have: "
                "submit it to one that does"
            )
        return tool.lasting.validate


async def _asked(call: Call, validate: Validate, told: ToolResult) -> str | None:
    """Return what is wrong with a result; a check that fails or times out refuses it."""
    try:
        async with asyncio.timeout(VALIDATE_SECONDS):
            return await validate(told)
    except Exception as error:  # noqa: BLE001  the edge of a tool's own code
        _log.warning(
            "session=%s call=%s action=validate_result tool=%s failed",
            call.session_id,
            call.id,
            call.tool,
            exc_info=error,
        )
        return f"its check failed with {type(error).__name__}; the log says more"


def _metadata(given: dict[str, Any] | None) -> dict[str, Any]:
    """Copy metadata through JSON, as it will be stored and read again."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidInput("metadata must be an object: names with values")
    read: dict[str, Any] = msgspec.json.decode(body(given))
    return read
