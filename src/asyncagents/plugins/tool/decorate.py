"""`@tool` and `@async_tool`: make tools from typed functions."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack, overload

import msgspec
from msgspec import UNSET, Struct, field

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Completed, Effect, Failed, Result
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.engine.tool import (
    DEFAULT_TIMEOUT_SECONDS,
    AnyTool,
    Ask,
    AsyncSpec,
    Execute,
    Outcome,
    Pending,
    Plan,
    Reconcile,
    Tool,
    ToolContext,
    Validate,
    WithFacts,
)
from asyncagents.errors import InvalidInput, ToolError
from asyncagents.plugins.thread import run_in_thread
from asyncagents.plugins.tool.check import why_unusable
from asyncagents.plugins.tool.signature import ToolSignature, tool_signature

Function = Callable[..., Any]
THREAD_GRACE_SECONDS = 2.0
"""Max time for a thread to end after a cancellation; then it is abandoned and a warning is logged."""
NO_OUTPUT = "(no output)"
_log = logging.getLogger(__name__)


class ToolOptions(TypedDict, total=False):
    name: str
    """The tool's name for the model; default: the function's name."""
    description: str
    """The tool's description for the model; default: the docstring."""
    effect: Effect
    """What a second run does: nothing, the same under the same effect key, or harm."""
    timeout: float
    plan: Function
    """Takes some or all parameters of the tool and returns the `Ask`s for what it would touch."""
    reconcile: Function
    """Takes the parameters of the tool and returns the result of a run that was cut off; None if unknown."""


class AsyncToolOptions(ToolOptions, total=False):
    seconds: float | None
    """Time until the deadline of a result; None: no deadline."""
    estimated_seconds: float
    """Expected duration, a hint for people; it never shortens the deadline."""
    validate_result: Function
    """Takes a `ToolResult` from outside; returns False or a reason to refuse it."""


@overload
def tool(function: Function, /) -> AnyTool: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Function], AnyTool]: ...


def tool(
    function: Function | None = None, /, **options: Unpack[ToolOptions]
) -> AnyTool | Callable[[Function], AnyTool]:
    """Make a tool from a function: its parameters are the arguments, its docstring is the description.

    A parameter of type `ToolContext` gets the context. A plain function runs in a thread. A tool returns
    a text, a `Completed`, `Failed` or `Pending`, or any value that can be encoded as JSON.
    """
    if function is not None:
        return _build_tool(function, options, _outcome)
    return lambda decorated: _build_tool(decorated, options, _outcome)


@overload
def async_tool(function: Function, /) -> AnyTool: ...


@overload
def async_tool(**options: Unpack[AsyncToolOptions]) -> Callable[[Function], AnyTool]: ...


def async_tool(
    function: Function | None = None, /, **options: Unpack[AsyncToolOptions]
) -> AnyTool | Callable[[Function], AnyTool]:
    """Make a tool that starts work elsewhere; its result comes later, under `context.pending_id`.

    A returned text is a note for people; `Pending` can hold more, such as the external system's id of the
    work; a `Completed` or `Failed` settles the call at once. Without a result after `seconds` the call fails.
    """

    if function is not None:
        return build_async_tool(function, options, _pending_outcome)
    return lambda decorated: build_async_tool(decorated, options, _pending_outcome)


def build_async_tool(
    function: Function, options: AsyncToolOptions, outcome: Callable[[Any], Outcome]
) -> AnyTool:
    """Build an async tool; `outcome` converts what the function returns."""
    check = options.get("validate_result")
    made = _build_tool(function, options, outcome)
    made.async_spec = AsyncSpec(
        seconds=options.get("seconds", UNSET),
        estimated_seconds=options.get("estimated_seconds"),
        validate=None if check is None else _wrap_validate(check),
    )
    return made


def _pending_outcome(value: Any) -> Outcome:
    match value:
        case None:
            return Pending()
        case str():
            return Pending(note=value)
        case Completed() | Failed() | Pending() | WithFacts():
            return value
        case dict():
            return _read_reference(value)
        case _:
            raise TypeError(f"an async tool returns a note, a Pending or nothing, not {type(value).__name__}")


class _Reference(Struct, frozen=True, forbid_unknown_fields=True):
    """What an async tool may return as plain JSON."""

    async_: bool = field(default=True, name="async")
    pending_id: str | None = field(default=None, name="pendingID")
    external_ref: str = field(default="", name="externalRef")
    estimated_ms: float | None = field(default=None, name="estimatedDuration")
    output: str = ""


def _read_reference(value: dict[str, Any]) -> Pending:
    try:
        reference = msgspec.convert(value, _Reference)
    except msgspec.ValidationError as error:
        raise TypeError(
            f"an async tool returns externalRef, estimatedDuration and output: {error}"
        ) from error
    estimated = None if reference.estimated_ms is None else reference.estimated_ms / 1000
    return Pending(note=reference.output, external_ref=reference.external_ref, estimated_seconds=estimated)


def _wrap_validate(function: Function) -> Validate:
    """Wrap a validation: None or True accepts, False refuses, a text or `ToolError` refuses with a reason."""

    async def validate(result: ToolResult) -> str | None:
        try:
            if inspect.iscoroutinefunction(function):
                verdict = await function(result)
            else:
                verdict = await run_in_thread(lambda: function(result), grace=THREAD_GRACE_SECONDS)
        except ToolError as error:
            return str(error)
        match verdict:
            case None | True:
                return None
            case False:
                return "validate_result said no"
            case str():
                return verdict
            case _:
                raise TypeError(f"validate_result says yes, no or why not, not {type(verdict).__name__}")

    return validate


def _build_tool(function: Function, options: ToolOptions, outcome: Callable[[Any], Outcome]) -> AnyTool:
    if isinstance(function, type) or not inspect.isroutine(function):
        raise InvalidInput("@tool decorates a function, not a class or another object")
    signature = tool_signature(function)
    plan, reconcile = options.get("plan"), options.get("reconcile")
    made: AnyTool = Tool(
        options.get("name", getattr(function, "__name__", "tool")),
        signature.args,
        _wrap_execute(function, signature, outcome),
        plan=None if plan is None else _wrap_plan(plan, signature),
        effect=options.get("effect", "once"),
        timeout=options.get("timeout", DEFAULT_TIMEOUT_SECONDS),
        reconcile=None if reconcile is None else _wrap_reconcile(reconcile, signature),
        description=options.get("description", signature.description),
    )
    if why := why_unusable(made):
        raise InvalidInput(f"the tool {made.name!r} cannot be used: {why}")
    return made


def _wrap_execute(
    function: Function, signature: ToolSignature, outcome: Callable[[Any], Outcome]
) -> Execute[Any]:
    async def run(args: Struct, context: ToolContext) -> Outcome:
        return outcome(await _call_function(function, _all_arguments(signature, args, context), context))

    return run


def _wrap_plan(function: Function, signature: ToolSignature) -> Plan[Any]:
    async def plan(args: Struct, context: ToolContext) -> tuple[Ask, ...]:
        match await _call_function(function, _named_arguments(function, signature, args, context), context):
            case None:
                return ()
            case Ask() as ask:
                return (ask,)
            case Sequence() as asks if all(isinstance(ask, Ask) for ask in asks):
                return tuple(asks)
            case other:
                raise TypeError(f"a plan returns Asks, not {type(other).__name__}")

    return plan


def _wrap_reconcile(function: Function, signature: ToolSignature) -> Reconcile[Any]:
    async def reconcile(args: Struct, context: ToolContext) -> Result | None:
        known = await _call_function(function, _named_arguments(function, signature, args, context), context)
        if known is None:
            return None
        found = _outcome(known)
        if not isinstance(found, Completed | Failed):
            raise TypeError("reconcile returns a result, or None")
        return found

    return reconcile


def _all_arguments(signature: ToolSignature, args: Struct, context: ToolContext) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in args.__struct_fields__}
    return given | ({signature.context: context} if signature.context else {})


def _named_arguments(
    function: Function, signature: ToolSignature, args: Struct, context: ToolContext
) -> dict[str, Any]:
    """Select the arguments that a function takes by name; the context also as `context`."""
    given = _all_arguments(signature, args, context) | {"context": context}
    names = inspect.signature(function).parameters
    return {name: value for name, value in given.items() if name in names}


async def _call_function(function: Function, given: dict[str, Any], context: ToolContext) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    ended = False

    def work() -> Any:
        nonlocal ended
        try:
            return function(**given)
        finally:
            ended = True

    try:
        return await run_in_thread(work, grace=THREAD_GRACE_SECONDS)
    except asyncio.CancelledError:
        if not ended:
            _log.warning("tool=%s action=cancel its thread still runs", getattr(function, "__name__", "tool"))
        raise


def _outcome(value: Any) -> Outcome:
    match value:
        case Completed() | Failed() | Pending() | WithFacts():
            return value
        case str():
            return Completed(value)
        case None:
            return Completed(NO_OUTPUT)
        case _:
            return Completed(encode_body(value).decode())
