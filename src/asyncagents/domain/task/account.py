"""Totals of a task's runs: of each run, and sums over all of them."""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from asyncagents.domain.conversation.session import CacheTokens, Session, Tokens
from asyncagents.domain.task.task import Account, Task, Totals

LAST_TOOLS = 5


def session_account(info: Session, tools: Sequence[str]) -> Account:
    """Count the totals of a session so far; `tools`: the names of its calls, oldest first."""
    return Account(
        tool_calls=len(tools),
        by_name=dict(Counter(tools)),
        last_tools=tuple(tools[-LAST_TOOLS:]),
        tokens=info.tokens or Tokens.zero(),
        cost=info.cost or 0.0,
    )


def run_account(task: Task, session: Account) -> Account:
    """Subtract the totals at the start of the run from those of the session."""
    base = run_base(task)
    count = max(0, session.tool_calls - base.tool_calls)
    return replace(
        session,
        tool_calls=count,
        by_name=dict(Counter(session.by_name) - Counter(base.by_name)),
        last_tools=session.last_tools[-count:] if count else (),
        tokens=_difference(session.tokens, base.tokens),
        cost=max(0.0, session.cost - base.cost),
    )


def run_base(task: Task) -> Account:
    """Return the session's totals when the latest run began.

    Older versions did not store them: then the account of the earlier runs is used instead.
    """
    kept_by_older = task.run > 0 and task.earlier is None and task.live
    return task.account or task.base if kept_by_older else task.base


def earlier_runs(task: Task) -> Totals | None:
    """Sum the runs before the latest one; None if there was none, or it is unknown.

    For a resumed task, older versions stored the sum of all runs in its account, except for the duration.
    """
    if task.earlier is not None or task.run == 0 or task.account is None or not task.live:
        return task.earlier
    return _totals(task.account, ms=task.account.ms if task.run == 1 else None)


def is_mixed(task: Task) -> bool:
    """Tell whether an older version summed the calls, tokens and cost of all runs in the last account."""
    return task.run > 0 and task.earlier is None and not task.live


def all_runs(task: Task, latest: Account | None) -> Totals | None:
    """Sum all runs, including `latest`; None if there was only one run."""
    if task.run == 0:
        return None
    if is_mixed(task):
        return _totals(task.account, ms=None) if task.account else None
    earlier = earlier_runs(task)
    if earlier is None or latest is None:
        return earlier
    return Totals(
        tool_calls=earlier.tool_calls + latest.tool_calls,
        by_name=dict(Counter(earlier.by_name) + Counter(latest.by_name)),
        tokens=earlier.tokens.plus(latest.tokens),
        cost=earlier.cost + latest.cost,
        ms=None if earlier.ms is None else earlier.ms + latest.ms,
    )


def ended_runs(task: Task) -> Totals:
    """Sum the runs of a task that has ended, its first included."""
    assert not task.live, "it has ended"
    account = task.account or Account()
    return all_runs(task, account) or _totals(account, ms=account.ms)


def _totals(account: Account, *, ms: int | None) -> Totals:
    return Totals(
        tool_calls=account.tool_calls,
        by_name=account.by_name,
        tokens=account.tokens,
        cost=account.cost,
        ms=ms,
    )


def _difference(all_: Tokens, before: Tokens) -> Tokens:
    return Tokens(
        input=max(0, all_.input - before.input),
        output=max(0, all_.output - before.output),
        reasoning=max(0, all_.reasoning - before.reasoning),
        cache=CacheTokens(
            read=max(0, all_.cache.read - before.cache.read),
            write=max(0, all_.cache.write - before.cache.write),
        ),
    )
