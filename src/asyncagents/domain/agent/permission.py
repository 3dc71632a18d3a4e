"""Permission rules: the last matching rule wins, and a child may do no more than its parent."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.guarded import is_guarded_name
from asyncagents.domain.agent.sandbox import Sandbox, narrowest
from asyncagents.domain.conversation.session import Rule

Action: TypeAlias = Literal["allow", "deny", "ask"]
Matcher: TypeAlias = Callable[[str], bool]
ConfiguredRules: TypeAlias = Mapping[str, Action | Mapping[str, Action]]
"""Rules as configured: per permission an action, or actions by pattern, in order."""

UNCLEAR = "unclear_command"
"""Needed beside `bash` if the text does not determine which commands run."""
WEBFETCH = "webfetch"
WEBFETCH_LOCAL = "webfetch_local"
"""Needed instead of `webfetch` for an address of this machine or its network."""
GUARDED_PLACE = "guarded_place"
"""Needed beside `edit`, `read` and `bash` for a guarded place."""
EXTERNAL_AGENT = "external_agent"
"""Needed beside `task` to launch an external agent, whose own work these rules cannot limit."""
_BY_NAME = frozenset({UNCLEAR, WEBFETCH_LOCAL, GUARDED_PLACE, EXTERNAL_AGENT})
"""Permissions that a rule for `*` does not allow."""
EXACT = "exact:"
EVERYTHING = "*"
_STRICTNESS: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
# Tools whose permission has another name.
_PERMISSION_OF = {"write": "edit", "patch": "edit", "apply_patch": "edit", "multiedit": "edit"}
TASK = "task"
LAUNCHING = (TASK, "async_task", "asyncagents_task")
"""Tools that launch agents."""
DELEGATING = (
    *LAUNCHING, "async_task_result", "asyncagents_output", "asyncagents_cancel", "asyncagents_list",
    "asyncagents_clear",
)  # fmt: skip
POLLING = ("async_task_result", "asyncagents_output")
"""Tools that poll a task; repeated calls of them wait by themselves."""
_PERMISSION_OF |= dict.fromkeys(DELEGATING, TASK)


class RuleLayers(Struct, frozen=True, kw_only=True):
    """An agent's rules by origin; a later field wins over an earlier one."""

    defaults: tuple[Rule, ...] = ()
    config: tuple[Rule, ...] = ()
    built_in: tuple[Rule, ...] = ()
    agent: tuple[Rule, ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.defaults + self.config + self.built_in + self.agent


class RuleSet(Struct, frozen=True, cache_hash=True):
    """The rules of one session, and the rules of its `tools` map, which apply on top."""

    rules: tuple[Rule, ...]
    tools: tuple[Rule, ...] = ()
    asks_anew: tuple[str, ...] = ()
    """Permissions for which approvals do not count; `EVERYTHING`: all of them."""
    sandbox: Sandbox | None = None
    """The sandbox of commands; None: no sandbox."""

    def evaluate(self, permission: str, pattern: str) -> Action:
        """Apply the map to the rules' action: `false` denies, `true` turns ask into allow, never a deny."""
        by_rules = evaluate(self.rules, permission, pattern)
        for rule in reversed(self.tools):
            if _applies_to(rule, permission):
                return _apply_tools_map(rule.action, by_rules, guarded=permission == GUARDED_PLACE)
        return by_rules

    def for_permission(self, permission: str) -> Callable[[str], Action]:
        """Return a function that evaluates one permission for many patterns, as `evaluate` does."""
        by_rules = partial(_first_match, _matchers_for(self.rules, permission))
        mapped = next((rule.action for rule in reversed(self.tools) if _applies_to(rule, permission)), None)
        if mapped is None:
            return by_rules
        return lambda pattern: _apply_tools_map(
            mapped, by_rules(pattern), guarded=permission == GUARDED_PLACE
        )

    def hides(self, tool: str) -> bool:
        return is_hidden(self.rules, tool) or is_hidden(self.tools, tool)


class LineageRules(Struct, frozen=True, cache_hash=True):
    """The rules of a lineage: the session's own, then those of each ancestor; the strictest action wins."""

    sets: tuple[RuleSet, ...]

    @classmethod
    def from_rules(cls, *rules: tuple[Rule, ...]) -> "LineageRules":
        """Build one from plain rules, without a `tools` map."""
        return cls(tuple(RuleSet(each) for each in dict.fromkeys(rules)))

    def evaluate(self, permission: str, pattern: str) -> Action:
        return strictest(each.evaluate(permission, pattern) for each in self.sets)

    def for_permission(self, permission: str) -> Callable[[str], Action]:
        """Return a function that evaluates one permission for many patterns; rules are filtered once."""
        sets = tuple(each.for_permission(permission) for each in self.sets)
        if len(sets) == 1:
            return sets[0]
        return lambda pattern: strictest(judge_one(pattern) for judge_one in sets)

    def decide(self, permission: str, patterns: Sequence[str]) -> Action:
        """Decide on all patterns of one request; without patterns, on `*`."""
        return strictest(self.evaluate(permission, pattern) for pattern in patterns or ("*",))

    def hides(self, tool: str) -> bool:
        return any(each.hides(tool) for each in self.sets)

    def denies_most(self, permission: str) -> bool:
        """Whether a permission is denied wherever no rule for single patterns says otherwise."""
        return self.hides(permission) or self.evaluate(permission, "*") == "deny"

    @property
    def asks_anew(self) -> frozenset[str]:
        """Permissions that ask every time, of the session and its ancestors."""
        return frozenset(permission for each in self.sets for permission in each.asks_anew)

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox of commands, no wider than that of any ancestor, with `network` resolved."""
        usual = not self.hides("webfetch")
        return narrowest(
            replace(each.sandbox, network=usual) if each.sandbox.network is None else each.sandbox
            for each in self.sets
            if each.sandbox is not None
        )


def narrow_to_parent(child: LineageRules, parent: LineageRules) -> LineageRules:
    """Limit a child to what its parent may do, by keeping both lists of rules."""
    return LineageRules(tuple(dict.fromkeys(child.sets + parent.sets)))


def strictest(actions: Iterable[Action]) -> Action:
    """Return the strictest action; `ask` if there is none."""
    return max(actions, key=_STRICTNESS.__getitem__, default="ask")


def evaluate(rules: Sequence[Rule], permission: str, pattern: str) -> Action:
    """Return the action of the last rule that matches; `ask` without one."""
    for rule in reversed(rules):
        if _applies_to(rule, permission) and match(rule.pattern, pattern):
            return rule.action
    return "ask"


def _matchers_for(rules: Sequence[Rule], permission: str) -> tuple[tuple[Matcher, Action], ...]:
    """List matchers and actions of a permission, last rule first, down to a rule for `*`."""
    found: list[tuple[Matcher, Action]] = []
    for rule in reversed(rules):
        if _applies_to(rule, permission):
            found.append((_build_matcher(rule.pattern), rule.action))
            if rule.pattern == "*":
                break
    return tuple(found)


def _apply_tools_map(mapped: Action, by_rules: Action, *, guarded: bool) -> Action:
    if mapped != "allow":
        return "deny"
    return "allow" if by_rules == "ask" and not guarded else by_rules


def _first_match(matchers: Sequence[tuple[Matcher, Action]], pattern: str) -> Action:
    for fits, action in matchers:
        if fits(pattern):
            return action
    return "ask"


def _build_matcher(pattern: str) -> Matcher:
    """Build a function that does the same as `match` for one pattern and many texts."""
    head, star, tail = pattern.partition("*")
    if star and not head and not set(tail) & set("*?\\/"):
        return lambda text: text.endswith(tail)
    return partial(match, pattern)


def _applies_to(rule: Rule, permission: str) -> bool:
    """Tell whether a rule applies to a permission. Those in `_BY_NAME` are only allowed by a rule with their
    own name."""
    if permission in _BY_NAME and rule.action == "allow":
        return rule.permission == permission
    return match(rule.permission, permission)


def permissions_needed(permission: str, patterns: Sequence[str], also: Sequence[str]) -> tuple[str, ...]:
    """List all permissions of a request; adds `guarded_place` if an edit names a guarded place."""
    named = permission == "edit" and any(map(is_guarded_name, patterns))
    return tuple(dict.fromkeys((permission, *also, *((GUARDED_PLACE,) if named else ()))))


def judge(rules: LineageRules, approved: Sequence[Rule], permission: str, patterns: Sequence[str]) -> Action:
    """Evaluate with approvals: one turns an ask into allow, but never a deny or a guarded place."""
    return strictest(
        "allow"
        if (action := rules.evaluate(permission, pattern)) == "ask"
        and permission != GUARDED_PLACE
        and evaluate(approved, permission, pattern) == "allow"
        else action
        for pattern in patterns or ("*",)
    )


def exact_permission(permission: str) -> str:
    """Return the permission under which approvals of exact texts are stored.

    No tool asks for a permission of such a name, so versions that only know patterns ignore them.
    """
    return f"{EXACT}{permission}"


def pattern_permission(permission: str) -> str:
    """Return the permission that an approval is for, exact or not."""
    return permission.removeprefix(EXACT)


def approved_exactly(approved: Sequence[Rule], permission: str, texts: Sequence[str]) -> bool:
    """Tell whether each text was approved exactly; `*` and `?` are ordinary characters here."""
    known = {rule.pattern for rule in approved if rule.permission == exact_permission(permission)}
    return bool(texts) and known.issuperset(texts)


def decide(rules: Sequence[Rule], permission: str, patterns: Sequence[str]) -> Action:
    """Decide on all patterns of one request; without patterns, on `*`."""
    return strictest(evaluate(rules, permission, pattern) for pattern in patterns or ("*",))


def is_hidden(rules: Sequence[Rule], tool: str) -> bool:
    """Tell whether a tool is denied for every pattern, so that it is not offered to the model."""
    permission = permission_of(tool)
    last = next((rule for rule in reversed(rules) if match(rule.permission, permission)), None)
    return last is not None and last.pattern == "*" and last.action == "deny"


def permission_of(tool: str) -> str:
    return _PERMISSION_OF.get(tool, tool)


def rules_from_config(written: ConfiguredRules, home: str) -> tuple[Rule, ...]:
    """Build the rules of a configuration, expanding `~` and `$HOME` at the start of a pattern."""
    return tuple(
        Rule(permission=permission, pattern=_expand_home(pattern, home), action=action)
        for permission, actions in written.items()
        for pattern, action in ({"*": actions} if isinstance(actions, str) else actions).items()
    )


def rules_from_tools(tools: Mapping[str, bool]) -> tuple[Rule, ...]:
    """Build rules from a `tools` map, in order; if two tools share a permission, the stricter counts."""
    wanted: dict[str, bool] = {}
    for tool, used in tools.items():
        permission = permission_of(tool)
        wanted[permission] = used and wanted.pop(permission, True)
    return tuple(
        Rule(permission=permission, pattern="*", action="allow" if used else "deny")
        for permission, used in wanted.items()
    )


def at_least(under: Sequence[Rule], permission: str, action: Action) -> tuple[Rule, ...]:
    """Build rules to append to `under` so that the permission is never less strict than `action`.

    One appended plain rule would also loosen what they deny.
    """
    pairs = [(rule.pattern, rule.action) for rule in under if _applies_to(rule, permission)]
    unsaid: tuple[str, Action] = ("*", "ask")
    return tuple(
        Rule(permission=permission, pattern=pattern, action=strictest((said_action, action)))
        for pattern, said_action in (unsaid, *pairs)
    )


def confine_to(under: Sequence[Rule], permissions: Sequence[str]) -> tuple[Rule, ...]:
    """Build rules to append to `under` so that everything but these permissions is denied."""
    nothing = Rule(permission="*", pattern="*", action="deny")
    return nothing, *(rule for permission in permissions for rule in at_least(under, permission, "allow"))


def match(pattern: str, text: str) -> bool:
    """Tell whether the whole text matches: `*` is any text, also across `/`, and `?` any one character.

    `git *` also matches `git` alone. A backslash counts as a slash on both sides.
    """
    pattern, text = pattern.replace("\\", "/"), text.replace("\\", "/")
    return (pattern.endswith(" *") and _matches_whole(pattern[:-2], text)) or _matches_whole(pattern, text)


def _matches_whole(pattern: str, text: str) -> bool:
    """Match piece by piece from the left, each at its first position, without backtracking."""
    head, *rest = pattern.split("*")
    if not rest:
        return len(head) == len(text) and _matches_at(head, text, 0)
    *middle, tail = rest
    place, end = len(head), len(text) - len(tail)
    if place > end or not _matches_at(head, text, 0) or not _matches_at(tail, text, end):
        return False
    for piece in middle:
        found = _find_piece(piece, text, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _matches_at(piece: str, text: str, place: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, place)
    return _expression(piece).match(text, place) is not None


def _find_piece(piece: str, text: str, place: int, end: int) -> int:
    if "?" not in piece:
        return text.find(piece, place, end)
    found = _expression(piece).search(text, place, end)
    return -1 if found is None else found.start()


@lru_cache(maxsize=256)
def _expression(piece: str) -> re.Pattern[str]:
    """Compile a piece with `?`; it has a fixed length, so it cannot backtrack."""
    return re.compile(".".join(re.escape(part) for part in piece.split("?")), re.DOTALL)


def _expand_home(pattern: str, home: str) -> str:
    for word in ("~", "$HOME"):
        if pattern == word or pattern.startswith(f"{word}/"):
            return home.rstrip("/") + pattern[len(word) :]
    return pattern
