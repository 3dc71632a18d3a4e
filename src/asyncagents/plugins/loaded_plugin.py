"""A loaded plugin, or one that failed to load: its hooks, tools and their health."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from asyncagents.engine.tool import AnyTool
from asyncagents.engine.workplace.hooks import HookName, PluginReport
from asyncagents.errors import InvalidInput
from asyncagents.plugins.guarded_call import Custody, Hung, Outcome, Raised, Returned
from asyncagents.plugins.hook_health import Health
from asyncagents.store.body import body
from asyncagents.tools.project.extra_tools import BUILT_IN

S = TypeVar("S", bound=Struct)
Scope: TypeAlias = Literal["program", "user", "project"]


class Loaded:
    def __init__(
        self,
        *,
        name: str,
        origin: str,
        scope: Scope,
        custody: Custody,
        seconds: float,
        error: str | None = None,
    ) -> None:
        self.name = name
        self.origin = origin
        self.scope: Scope = scope
        self.error = error
        self.tools: tuple[AnyTool, ...] = ()
        self._custody = custody
        self._seconds = seconds
        self._hooks: Mapping[HookName, Callable[..., Any]] = {}
        self._health: dict[HookName, Health] = {}

    def offer(self, hooks: Mapping[HookName, Callable[..., Any]], tools: tuple[AnyTool, ...]) -> None:
        self._hooks = hooks
        self._health = {hook: Health(self.name, hook) for hook in hooks}
        self.tools = tools

    @property
    def hooks(self) -> frozenset[HookName]:
        return frozenset(self._hooks)

    def health(self, hook: HookName) -> Health:
        return self._health[hook]

    async def call(self, hook: HookName, *args: Any) -> Outcome | None:
        """Call a hook; None if it is disabled. Timeouts are counted here, other outcomes by the caller."""
        health = self._health[hook]
        if health.off:
            return None
        outcome = await self._custody.run(self._hooks[hook], *args, seconds=self._seconds)
        match outcome:
            case Hung():
                health.hung(self._seconds)
            case Raised() | Returned():
                pass
        return outcome

    async def change(self, hook: HookName, about: Mapping[str, Any], what: S) -> S:
        """Return `what` as changed by the hook; unchanged if the hook fails."""
        changed, error = await self.attempt(hook, about, what)
        if error is not None:
            self._health[hook].raised(error)
        return changed

    async def attempt(
        self, hook: HookName, about: Mapping[str, Any], what: S
    ) -> tuple[S, BaseException | None]:
        """Return `what` as changed by the hook, and the error that it raised, for the caller to count."""
        left = msgspec.to_builtins(what)
        outcome = await self.call(hook, msgspec.to_builtins(dict(about), enc_hook=str), left)
        match outcome:
            case Returned():
                return self._checked(hook, left, what), None
            case Raised(error):
                return what, error
            case Hung() | None:
                return what, None

    def _checked(self, hook: HookName, left: Any, what: S) -> S:
        """Decode the hook's output; an invalid one is no change. Comparing bytes runs no plugin code."""
        try:
            raw = body(left)
            changed = what if raw == body(what) else msgspec.json.decode(raw, type=type(what))
        except (msgspec.MsgspecError, InvalidInput) as error:
            self._health[hook].left(str(error))
            return what
        self._health[hook].ended()
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
