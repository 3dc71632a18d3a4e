"""A loaded plugin, or one that failed to load: its hooks, tools and their health."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from asyncagents.domain.body import encode_body
from asyncagents.engine.tool import AnyTool
from asyncagents.engine.workplace.hooks import HookName, PluginReport
from asyncagents.errors import InvalidInput
from asyncagents.plugins.guarded_call import (
    CallTimeout,
    GuardedOutcome,
    GuardedRunner,
    RaisedError,
    ReturnedValue,
)
from asyncagents.plugins.hook_health import HookHealth
from asyncagents.tools.project.extra_tools import BUILT_IN

S = TypeVar("S", bound=Struct)
Scope: TypeAlias = Literal["program", "user", "project"]


class LoadedPlugin:
    def __init__(
        self,
        *,
        name: str,
        origin: str,
        scope: Scope,
        runner: GuardedRunner,
        seconds: float,
        error: str | None = None,
    ) -> None:
        self.name = name
        self.origin = origin
        self.scope: Scope = scope
        self.error = error
        self.tools: tuple[AnyTool, ...] = ()
        self._runner = runner
        self._seconds = seconds
        self._hooks: Mapping[HookName, Callable[..., Any]] = {}
        self._health: dict[HookName, HookHealth] = {}

    def set_hooks(self, hooks: Mapping[HookName, Callable[..., Any]], tools: tuple[AnyTool, ...]) -> None:
        self._hooks = hooks
        self._health = {hook: HookHealth(self.name, hook) for hook in hooks}
        self.tools = tools

    @property
    def hooks(self) -> frozenset[HookName]:
        return frozenset(self._hooks)

    def health(self, hook: HookName) -> HookHealth:
        return self._health[hook]

    async def call_hook(self, hook: HookName, *args: Any) -> GuardedOutcome | None:
        """Call a hook; None if it is disabled. Timeouts are counted here, other outcomes by the caller."""
        health = self._health[hook]
        if health.off:
            return None
        outcome = await self._runner.run(self._hooks[hook], *args, seconds=self._seconds)
        match outcome:
            case CallTimeout():
                health.record_timeout(self._seconds)
            case RaisedError() | ReturnedValue():
                pass
        return outcome

    async def apply_hook(self, hook: HookName, about: Mapping[str, Any], what: S) -> S:
        """Return `what` as changed by the hook; unchanged if the hook fails."""
        changed, error = await self.try_hook(hook, about, what)
        if error is not None:
            self._health[hook].record_error(error)
        return changed

    async def try_hook(
        self, hook: HookName, about: Mapping[str, Any], what: S
    ) -> tuple[S, BaseException | None]:
        """Return `what` as changed by the hook, and the error that it raised, for the caller to count."""
        left = msgspec.to_builtins(what)
        outcome = await self.call_hook(hook, msgspec.to_builtins(dict(about), enc_hook=str), left)
        match outcome:
            case ReturnedValue():
                return self._read_change(hook, left, what), None
            case RaisedError(error):
                return what, error
            case CallTimeout() | None:
                return what, None

    def _read_change(self, hook: HookName, left: Any, what: S) -> S:
        """Decode the hook's output; an invalid one is no change. Comparing bytes runs no plugin code."""
        try:
            raw = encode_body(left)
            changed = what if raw == encode_body(what) else msgspec.json.decode(raw, type=type(what))
        except (msgspec.MsgspecError, InvalidInput) as error:
            self._health[hook].record_bad_output(str(error))
            return what
        self._health[hook].record_end()
        return changed

    def report(self) -> PluginReport:
        return PluginReport(
            name=self.name,
            origin=self.origin,
            scope=self.scope,
            error=self.error,
            hooks=tuple(health.report() for health in self._health.values()),
            tools=tuple(tool.name for tool in self.tools),
            overrides=tuple(
                tool.name for tool in self.tools if tool.name in BUILT_IN and self.scope != "project"
            ),
        )
