"""What a shell line asks for, and what it asks again after an approval."""

from collections.abc import Iterable
from pathlib import Path

from asyncagents.domain.agent.permission import LineageRules, exact_permission
from asyncagents.domain.conversation.session import Rule
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.project import judge_ask
from asyncagents.tools.shell.rules import command_asks

HOME = Path("/home/someone")


PROJECT = Path("/project")


EVERYTHING_ASKS = LineageRules.from_rules((Rule(permission="*", pattern="*", action="ask"),))


def shell_asks(command: str, *, project: Path = PROJECT, start: Path | None = None) -> tuple[Ask, ...]:
    return command_asks(command, directory=project, start=start or project, home=HOME)


def approved_rules(shown: Iterable[Ask]) -> list[Rule]:
    """All that is kept if each ask is answered with always."""
    return [
        Rule(
            permission=exact_permission(ask.permission) if ask.exact else ask.permission,
            pattern=pattern,
            action="allow",
        )
        for ask in shown
        for pattern in ask.always
    ]


def asks_again(shown: Iterable[Ask], later: Iterable[Ask]) -> bool:
    known = approved_rules(shown)
    return any(judge_ask(ask, EVERYTHING_ASKS, known) == "ask" for ask in later)
