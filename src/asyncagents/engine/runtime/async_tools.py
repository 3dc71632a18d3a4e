"""Results of async tools from outside: each call takes one, in any process."""

import asyncio
import logging
from typing import Any

import msgspec

from asyncagents.config.secret import Secret
from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import CANCELLED, Call, Completed, Failed, Result
from asyncagents.domain.call.incoming_result import (
    MOST_BYTES,
    IncomingResult,
    read_incoming_result,
    read_pending_id,
)
from asyncagents.domain.call.pending_tool import PendingStatus, PendingToolCall, ToolResult, pending_tool_call
from asyncagents.domain.call.webhook_signature import (
    Headers,
    InvalidSignature,
    check_signature,
    read_signature,
)
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.call.incoming_webhook import IncomingWebhook
from asyncagents.engine.input.message import require_text
from asyncagents.engine.observer import NOOP_OBSERVER, Observer, report_settled
from asyncagents.engine.tool import Validate
from asyncagents.engine.workplace.workplace import Workplaces, workplace_at
from asyncagents.errors import InvalidInput, NotFound, ResultRefused, Unauthorized, Unavailable
from asyncagents.store.store import Store

VALIDATE_SECONDS = 60
MAX_LIMIT = 1_000
_log = logging.getLogger(__name__)


class AsyncTools:
    """Settle and list pending calls. Every result is committed before its method returns."""

    def __init__(
        self,
        *,
        store: Store,
        workplaces: Workplaces,
        webhook: IncomingWebhook,
        clock: Clock,
        observer: Observer = NOOP_OBSERVER,
    ) -> None:
        self._observer = observer
        self._store = store
        self._workplaces = workplaces
        self._webhook = webhook
        self._clock = clock

    async def submit_result(
        self, pending_id: str, output: str, *, title: str = "", metadata: dict[str, Any] | None = None
    ) -> PendingToolCall:
        """Settle a call with its result; the session continues in the process that serves it.

        The same result again returns the same; another one raises `AlreadySettled`. A result that the tool's
        `validate_result` refuses raises `ResultRefused`, and the call stays open.
        """
        given = require_text(output, "a result"), require_text(title, "a title"), _copy_metadata(metadata)
        result = Completed(*given)
        call = await self._settle_call(CallId(pending_id), result, unless_checked=True)
        if not call.is_settled:
            await self._check_result(call, result)
            call = await self._settle_call(call.id, result)
        return pending_tool_call(call)

    async def submit_error(self, pending_id: str, error: str) -> PendingToolCall:
        """Settle a call with an error; the session continues."""
        return await self._settle(CallId(pending_id), Failed(require_text(error, "an error")))

    async def submit(self, result: IncomingResult) -> PendingToolCall:
        """Submit a result or an error, as it was read from a request body."""
        match result.result:
            case Completed(output, title, metadata):
                return await self.submit_result(result.pending_id, output, title=title, metadata=metadata)
            case Failed(error):
                return await self.submit_error(result.pending_id, error)

    async def receive(self, headers: Headers, body: bytes) -> PendingToolCall:
        """Verify the signature of a webhook (the body byte for byte) and submit its result.

        Raises `Unauthorized` for everything that is not signed with a secret of the call it names, whether
        that call exists or not; `NotFound` only if the signature is valid and the call is gone.
        """
        claim = read_signature(headers, self._clock.now())
        if isinstance(claim, InvalidSignature):
            raise Unauthorized(claim.reason)
        if len(body) > MOST_BYTES:
            raise InvalidInput(f"the body of a webhook may have at most {MOST_BYTES} bytes")
        pending_id = read_pending_id(body)
        verdict = check_signature(claim, body, [secret.reveal() for secret in await self.secrets(pending_id)])
        if isinstance(verdict, InvalidSignature):
            raise Unauthorized(verdict.reason)
        result = read_incoming_result(body)
        if result.pending_id != pending_id:
            raise InvalidInput("the body names two calls")
        await self._store.pending.call(
            CallId(pending_id)
        )  # a secret that many calls share settles only calls that wait for an outside result
        return await self.submit(result)

    async def cancel(self, pending_id: str) -> PendingToolCall:
        """Settle a call with the error `cancelled`; the session continues."""
        return await self._settle(CallId(pending_id), Failed(CANCELLED))

    async def _settle(self, call_id: CallId, result: Completed | Failed) -> PendingToolCall:
        return pending_tool_call(await self._settle_call(call_id, result))

    async def _settle_call(self, call_id: CallId, result: Result, *, unless_checked: bool = False) -> Call:
        began = self._clock.now()
        try:
            call = await self._store.settle(call_id, result, unless_checked=unless_checked)
        except NotFound as error:
            raise NotFound("pending call", call_id) from error
        return await report_settled(self._observer, self._store, call, began)

    async def get(self, pending_id: str) -> PendingToolCall:
        """Read one call; also one that waits for tasks, which takes no outside result."""
        return pending_tool_call(await self._store.pending.waiting_call(CallId(pending_id)))

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
        """List pending calls with a status, of one session or all, after the id `after`."""
        if not 0 < limit <= MAX_LIMIT:
            raise InvalidInput(f"limit must be from 1 to {MAX_LIMIT}")
        found = await self._store.pending.calls(status, session_id, after=after, limit=limit)
        return tuple(pending_tool_call(call) for call in found)

    async def resume(self, pending_id: str) -> Status:
        """Wake the session of a settled call. Settling wakes it already; a further wake does no harm."""
        return await self._store.status(await self._store.pending.resume(CallId(pending_id)))

    async def secrets(self, pending_id: str) -> tuple[Secret, ...]:
        """Return the secrets that may sign the result of a call."""
        return await self._webhook.secrets(CallId(pending_id))

    async def rotate_key(self) -> None:
        """Derive secrets of new calls from a new key; secrets that were handed out stay valid."""
        await self._webhook.keys.rotate()

    async def _check_result(self, call: Call, result: Completed) -> None:
        """Run the tool's `validate_result` on a result."""
        copy = _copy_metadata(result.metadata)  # the validator may change what it gets
        tool_result = ToolResult(title=result.title, output=result.output, metadata=copy)
        wrong = await _run_validator(call, await self._find_validator(call), tool_result)
        if wrong is not None:
            raise ResultRefused(f"{call.tool} does not take this result: {wrong}")

    async def _find_validator(self, call: Call) -> Validate:
        session = await self._store.session(call.session_id)
        workplace = await workplace_at(self._workplaces, session.directory)
        tool = workplace.tools.get(call.tool)
        if tool is None or tool.async_spec is None or tool.async_spec.validate is None:
            raise Unavailable(
                f"results of {call.tool} are checked by the tool, which this process does not have: "
                "submit it to one that does"
            )
        return tool.async_spec.validate


async def _run_validator(call: Call, validate: Validate, tool_result: ToolResult) -> str | None:
    """Return what is wrong with a result; a check that fails or times out refuses it."""
    try:
        async with asyncio.timeout(VALIDATE_SECONDS):
            return await validate(tool_result)
    except Exception as error:  # noqa: BLE001  the edge of a tool's own code
        _log.warning(
            "session=%s call=%s action=validate_result tool=%s failed",
            call.session_id,
            call.id,
            call.tool,
            exc_info=error,
        )
        return f"its check failed with {type(error).__name__}; the log says more"


def _copy_metadata(given: dict[str, Any] | None) -> dict[str, Any]:
    """Copy metadata through JSON, as it will be stored and read again."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidInput("metadata must be an object: names with values")
    read: dict[str, Any] = msgspec.json.decode(encode_body(given))
    return read
