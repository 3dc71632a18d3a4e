"""Counts calls and failures of a hook, logs each kind of failure once, and disables a hook that hangs."""

import logging

from asyncagents.domain.text import error_text
from asyncagents.engine.workplace.hooks import HookReport

MOST_HANGS = 3
"""Timeouts in a row after which the hook is disabled until the process restarts."""
_log = logging.getLogger("asyncagents.plugins")


class HookHealth:
    def __init__(self, plugin: str, hook: str) -> None:
        self._plugin = plugin
        self._hook = hook
        self._logged: set[str] = set()
        self._calls = 0
        self._failures = 0
        self._hangs = 0
        self._last: str | None = None
        self.off = False

    def record_end(self) -> None:
        self._calls += 1
        self._hangs = 0

    def record_error(self, error: BaseException) -> None:
        self.record_end()
        self._record_failure(type(error).__name__, f"raised {error_text(error)}", error)

    def record_bad_output(self, why: str) -> None:
        """Record a call whose output cannot be used."""
        self.record_end()
        self._record_failure("left", f"returned an unusable output, which is ignored: {why}")

    def record_lost_events(self, count: int) -> None:
        self._record_failure("lost", f"is too slow: it missed {count} events")

    def record_timeout(self, seconds: float) -> None:
        self._calls += 1
        self._hangs += 1
        self._record_failure("hung", f"did not end within {seconds:g} s and was skipped")
        if self._hangs >= MOST_HANGS and not self.off:
            self.off = True
            _log.warning(
                "plugin=%s hook=%s action=disable timed out %d times in a row; off until the next start",
                self._plugin,
                self._hook,
                self._hangs,
            )

    def _record_failure(self, kind: str, what: str, error: BaseException | None = None) -> None:
        self._failures += 1
        self._last = what
        if kind not in self._logged:
            self._logged.add(kind)
            _log.warning("plugin=%s hook=%s %s", self._plugin, self._hook, what, exc_info=error)

    def report(self) -> HookReport:
        return HookReport(
            hook=self._hook, calls=self._calls, failures=self._failures, off=self.off, last=self._last
        )
