"""Rules: the last that matches wins, wildcards are plain, and a child never exceeds its parent."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.agent.permission import (
    EXTERNAL_AGENT,
    GUARDED_PLACE,
    UNCLEAR,
    WEBFETCH_LOCAL,
    Action,
    LineageRules,
    RuleLayers,
    RuleSet,
    approved_exactly,
    at_least,
    confine_to,
    decide,
    evaluate,
    exact_permission,
    is_hidden,
    judge,
    match,
    narrow_to_parent,
    rules_from_config,
    rules_from_tools,
    strictest,
)
from asyncagents.domain.conversation.session import Rule

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}

actions = st.sampled_from(["allow", "ask", "deny"])
names = st.sampled_from(["read", "edit", "bash", "task"])
texts = st.text(alphabet="ab /.\n", max_size=6)
wildcards = st.text(alphabet="ab /.*?", max_size=6)
rules = st.builds(
    Rule,
    permission=names | st.sampled_from(["*", "re*", "?ash"]),
    pattern=wildcards | st.just("*"),
    action=actions,
)
rule_sets = st.lists(rules, max_size=6).map(tuple)
effectives = st.lists(rule_sets, min_size=1, max_size=3).map(lambda sets: LineageRules.from_rules(*sets))


def rule(permission: str, pattern: str, action: Action) -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action)


@pytest.mark.spec("A-03")
@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("src/*", "src/a/b.py", True),
        ("src/*", "lib/src/a.py", False),
        ("*.env", "a/.env", True),
        ("*.env", ".env.example", False),
        ("?.py", "a.py", True),
        ("?.py", ".py", False),
        ("a?c*", "a\ncd", True),
        ("git *", "git", True),
        ("git *", "git status", True),
        ("git *", "gitk", False),
        ("a\\b", "a/b", True),
        ("a/b", "a\\b", True),
        ("ab*ba", "aba", False),
        ("[a]+", "a", False),
        ("[a]+", "[a]+", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_a_wildcard_fits_the_whole_text_or_not_at_all(pattern: str, text: str, fits: bool) -> None:
    assert match(pattern, text) is fits


@given(pattern=wildcards, text=texts)
def test_wildcards_match_like_the_equivalent_regular_expression(pattern: str, text: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    if pattern.endswith(" *"):
        expression = expression.removesuffix(r"\ .*") + r"(\ .*)?"
    assert match(pattern, text) == (re.fullmatch(expression, text, re.DOTALL) is not None)


def test_a_pattern_with_many_wildcards_matches_in_bounded_time() -> None:
    """An expression that backtracks would not end within the time of the whole run."""
    assert not match("*a" * 5000 + "b", "a" * 100_000)
    assert not match("*?a?" * 500 + "b", "a" * 20_000)
    assert match("*a" * 5000, "a" * 100_000)


@pytest.mark.spec("A-03")
def test_the_last_rule_that_matches_wins_and_none_asks() -> None:
    laid = (rule("bash", "*", "allow"), rule("bash", "rm *", "deny"), rule("b*", "rm -i *", "ask"))
    assert evaluate(laid, "bash", "ls") == "allow"
    assert evaluate(laid, "bash", "rm -rf /") == "deny"
    assert evaluate(laid, "bash", "rm -i a") == "ask"
    assert evaluate(laid, "edit", "a.py") == "ask"


@pytest.mark.spec("A-03")
def test_later_rule_layers_win_from_the_defaults_to_the_agent() -> None:
    order: list[Action] = ["deny", "ask", "allow", "deny"]
    layers = RuleLayers()
    for field, action in zip(RuleLayers.__struct_fields__, order, strict=True):
        layers = RuleLayers(
            **{each: getattr(layers, each) for each in RuleLayers.__struct_fields__ if each != field},
            **{field: (rule("bash", "*", action),)},
        )
        assert evaluate(layers.rules, "bash", "ls") == action
    assert RuleLayers.__struct_fields__ == ("defaults", "config", "built_in", "agent")


@pytest.mark.spec("A-03")
def test_an_approval_answers_asks_and_lifts_no_denial() -> None:
    approved = (rule("edit", "*", "allow"), rule("bash", "git *", "allow"))
    build = LineageRules.from_rules((rule("*", "*", "ask"), rule("bash", "git push *", "deny")))
    plan = LineageRules.from_rules((rule("*", "*", "ask"), rule("edit", "*", "deny")))
    assert judge(build, approved, "edit", ["a.py"]) == "allow"
    assert judge(plan, approved, "edit", ["a.py"]) == "deny"
    assert judge(build, approved, "bash", ["git status"]) == "allow"
    assert judge(build, approved, "bash", ["git status", "ls"]) == "ask"
    assert judge(build, approved, "bash", ["git push origin"]) == "deny"
    assert judge(build, approved, "webfetch", []) == "ask"


@pytest.mark.parametrize("name", [UNCLEAR, WEBFETCH_LOCAL, EXTERNAL_AGENT])
def test_some_permissions_are_allowed_only_by_their_own_name(name: str) -> None:
    everything = rule("*", "*", "allow")
    assert evaluate((everything,), name, "x") == "ask"
    assert evaluate((rule(f"{name[:5]}*", "*", "allow"), rule("?*", "*", "allow")), name, "x") == "ask"
    assert evaluate((everything, rule(name, "*", "allow")), name, "x") == "allow"
    assert evaluate((rule(name, "*", "allow"), rule("*", "*", "deny")), name, "x") == "deny"
    assert RuleSet((everything,), (rule("*", "*", "allow"),)).evaluate(name, "x") == "ask"
    assert RuleSet((everything,)).for_permission(name)("x") == "ask"


@pytest.mark.parametrize("name", [UNCLEAR, WEBFETCH_LOCAL, EXTERNAL_AGENT])
def test_a_derived_rule_does_not_allow_permissions_that_need_their_name(name: str) -> None:
    """An agent that may only look has rules of its own for each permission, made from those for all."""
    asks, everything = rule(name, "*", "ask"), rule("*", "*", "allow")
    for under in ((everything, asks), (asks, everything), (everything,)):
        assert evaluate(confine_to(under, (name,)), name, "x") == "ask"
        assert evaluate(at_least(under, name, "allow"), name, "x") == "ask"
    assert evaluate(confine_to((everything, rule(name, "*", "allow")), (name,)), name, "x") == "allow"


def test_one_denied_pattern_denies_and_one_that_asks_asks() -> None:
    laid = (rule("*", "*", "allow"), rule("bash", "rm *", "deny"), rule("bash", "mv *", "ask"))
    assert decide(laid, "bash", ["ls", "cat a"]) == "allow"
    assert decide(laid, "bash", ["ls", "mv a b"]) == "ask"
    assert decide(laid, "bash", ["mv a b", "rm a", "ls"]) == "deny"


def test_a_request_without_patterns_is_judged_by_rules_for_all_patterns() -> None:
    assert decide((rule("bash", "ls", "allow"),), "bash", []) == "ask"
    assert decide((rule("bash", "*", "deny"),), "bash", []) == "deny"


def test_a_tool_denied_outright_is_hidden_and_one_denied_in_part_is_not() -> None:
    assert is_hidden((rule("*", "*", "allow"), rule("bash", "*", "deny")), "bash")
    assert not is_hidden((rule("bash", "*", "deny"), rule("bash", "git *", "allow")), "bash")
    assert not is_hidden((rule("bash", "rm *", "deny"),), "bash")
    assert not is_hidden((), "bash")


def test_a_permission_is_denied_for_most_patterns_by_its_rule_for_all_of_them() -> None:
    def rules_of(*pairs: tuple[str, Action]) -> LineageRules:
        given = tuple(Rule(permission="edit", pattern=pattern, action=action) for pattern, action in pairs)
        return LineageRules.from_rules(given)

    assert rules_of(("*", "deny")).denies_most("edit")
    assert rules_of(("*", "deny"), ("docs/**", "allow")).denies_most("edit")
    assert not rules_of(("*", "allow"), ("secrets/*", "deny")).denies_most("edit")
    assert not rules_of(("*", "ask")).denies_most("edit")


@pytest.mark.parametrize("tool", ["write", "edit", "patch", "apply_patch", "multiedit"])
def test_every_tool_that_writes_files_needs_the_permission_edit(tool: str) -> None:
    assert is_hidden((rule("edit", "*", "deny"),), tool)
    assert not is_hidden((rule("write", "*", "deny"),), tool)


def test_configured_rules_keep_their_order_and_expand_the_home_directory() -> None:
    written: dict[str, Action | dict[str, Action]] = {
        "*": "ask",
        "read": {"~/notes/*": "allow", "$HOME": "deny", "~other": "deny", "$HOMELY/*": "ask"},
    }
    assert rules_from_config(written, "/home/me/") == (
        rule("*", "*", "ask"),
        rule("read", "/home/me/notes/*", "allow"),
        rule("read", "/home/me", "deny"),
        rule("read", "~other", "deny"),
        rule("read", "$HOMELY/*", "ask"),
    )


@pytest.mark.spec("A-03")
@given(child=effectives, parent=effectives, permission=names, patterns=st.lists(texts, max_size=3))
def test_a_child_never_exceeds_its_parent(
    child: LineageRules, parent: LineageRules, permission: str, patterns: list[str]
) -> None:
    both = narrow_to_parent(child, parent)
    for pattern in patterns:
        alone, above = child.evaluate(permission, pattern), parent.evaluate(permission, pattern)
        assert STRICTNESS[both.evaluate(permission, pattern)] == max(STRICTNESS[alone], STRICTNESS[above])
    assert STRICTNESS[both.decide(permission, patterns)] == max(
        STRICTNESS[child.decide(permission, patterns)], STRICTNESS[parent.decide(permission, patterns)]
    )
    assert both.hides(permission) == (child.hides(permission) or parent.hides(permission))


@given(line=st.tuples(effectives, effectives, effectives), permission=names, pattern=texts)
def test_a_grandchild_never_exceeds_any_session_of_its_lineage(
    line: tuple[LineageRules, LineageRules, LineageRules], permission: str, pattern: str
) -> None:
    eldest, middle, youngest = line
    effective = narrow_to_parent(youngest, narrow_to_parent(middle, eldest))
    expected = strictest(each.evaluate(permission, pattern) for each in line)
    assert effective.evaluate(permission, pattern) == expected


@given(under=rule_sets, permission=names, action=actions, pattern=texts)
def test_a_floor_makes_rules_stricter_and_never_looser(
    under: tuple[Rule, ...], permission: str, action: Action, pattern: str
) -> None:
    over = under + at_least(under, permission, action)
    assert evaluate(over, permission, pattern) == strictest((evaluate(under, permission, pattern), action))


@given(under=rule_sets, kept=st.lists(names, unique=True), permission=names, pattern=texts)
def test_confined_rules_keep_named_permissions_and_deny_the_rest(
    under: tuple[Rule, ...], kept: list[str], permission: str, pattern: str
) -> None:
    over = under + confine_to(under, kept)
    expected = evaluate(under, permission, pattern) if permission in kept else "deny"
    assert evaluate(over, permission, pattern) == expected


maps = st.dictionaries(st.sampled_from(["read", "write", "edit", "bash", "task", "*"]), st.booleans())


@pytest.mark.spec("Z-04")
@given(under=rule_sets, tools=maps, permission=names, pattern=texts)
def test_a_map_of_tools_denies_and_lifts_no_denial(
    under: tuple[Rule, ...], tools: dict[str, bool], permission: str, pattern: str
) -> None:
    before = evaluate(under, permission, pattern)
    after = RuleSet(under, rules_from_tools(tools)).evaluate(permission, pattern)
    assert STRICTNESS[after] >= STRICTNESS[before] or (before, after) == ("ask", "allow")
    if tools.get("*") is False and set(tools) == {"*"}:
        assert after == "deny"


@pytest.mark.spec("Z-04")
@pytest.mark.parametrize(
    ("permission", "pattern", "action"),
    [
        ("bash", "ls", "allow"),
        ("bash", "rm x", "deny"),
        ("webfetch", "https://example.org", "deny"),
        ("edit", "a.py", "allow"),
        (GUARDED_PLACE, ".git/config", "ask"),
        ("skill", "x", "ask"),
        (UNCLEAR, "$(x)", "ask"),
        ("task", "general", "deny"),
    ],
)
def test_a_map_of_tools_answers_asks_by_the_name_of_the_tool(
    permission: str, pattern: str, action: Action
) -> None:
    under = (rule("*", "*", "ask"), rule("bash", "rm *", "deny"), rule("task", "*", "allow"))
    tools = {"bash": True, "webfetch": False, "write": True, "async_task": False, "guarded_place": True}
    assert RuleSet(under, rules_from_tools(tools)).evaluate(permission, pattern) == action


@pytest.mark.spec("Z-04")
def test_in_a_map_of_tools_the_last_that_matches_wins() -> None:
    only = RuleSet((rule("*", "*", "allow"),), rules_from_tools({"*": False, "read": True}))
    assert only.evaluate("read", "a") == "allow"
    assert only.evaluate("bash", "ls") == "deny"
    assert only.hides("read") is False
    assert only.hides("bash") is True


def test_lineage_rules_without_any_rule_ask() -> None:
    assert LineageRules.from_rules().evaluate("bash", "ls") == "ask"


_PATTERNS = st.text(alphabet="*?./\\ ae", max_size=6)


@given(
    st.lists(
        st.lists(
            st.builds(
                Rule,
                permission=st.sampled_from(["read", "*", "edit", "r*"]),
                pattern=_PATTERNS,
                action=st.sampled_from(["allow", "ask", "deny"]),
            ),
            max_size=6,
        ).map(tuple),
        max_size=3,
    ).map(tuple),
    st.lists(
        st.builds(
            Rule,
            permission=st.sampled_from(["read", "*", "edit"]),
            pattern=st.just("*"),
            action=st.sampled_from(["allow", "deny"]),
        ),
        max_size=2,
    ).map(tuple),
    st.text(alphabet="./\\ aenv", max_size=8),
)
def test_a_check_prepared_for_a_permission_agrees_with_evaluate(
    sets: tuple[tuple[Rule, ...], ...], tools: tuple[Rule, ...], name: str
) -> None:
    rules = LineageRules(tuple(RuleSet(each, tools) for each in sets))
    assert rules.for_permission("read")(name) == rules.evaluate("read", name)


@pytest.mark.spec("Z-06")
@given(text=wildcards, other=wildcards | texts)
def test_an_exact_approval_covers_its_text_only_and_is_no_pattern(text: str, other: str) -> None:
    approved = (Rule(permission=exact_permission("bash"), pattern=text, action="allow"),)
    asking = LineageRules.from_rules((Rule(permission="*", pattern="*", action="ask"),))
    assert approved_exactly(approved, "bash", (other,)) == (text == other)
    assert not approved_exactly(approved, "edit", (text,))
    assert not approved_exactly(approved, "bash", ())
    for permission in ("bash", UNCLEAR):
        assert judge(asking, approved, permission, (text,)) == "ask"
