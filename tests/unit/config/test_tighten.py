"""Whatever rules a stranger's project brings, nothing becomes allowed that was not."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.file.legacy import modernise
from asyncagents.config.file.untrusted import split_rules, tighten_rules
from asyncagents.config.tree import Branch, ConfigLeaf, build_tree, plain_values

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
PERMISSIONS, PATTERNS = ["*", "bash", "edit"], ["*", "git *", "git push", "rm"]
CALLS = [
    (permission, call) for permission in ("bash", "edit", "read") for call in ("git push", "git x", "rm")
]


def rules_of(actions: list[str]) -> st.SearchStrategy[Any]:
    action = st.sampled_from(actions)
    patterns = st.lists(st.tuples(st.sampled_from(PATTERNS), action), max_size=3).map(dict)
    by_name = st.tuples(st.sampled_from(PERMISSIONS), action | patterns)
    return action | st.lists(by_name, max_size=4).map(dict)


def documents(actions: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    rules = rules_of(actions)
    return st.fixed_dictionaries(
        {}, optional={"permission": rules, "agent": st.fixed_dictionaries({"a": rules.map(_agent)})}
    )


def _agent(rules: Any) -> dict[str, Any]:
    return {"permission": rules}


def tree_of(document: dict[str, Any]) -> Branch:
    return modernise(build_tree(document, lambda _, value: ConfigLeaf(value, "f")), "f")


def verdict(tree: Branch, permission: str, call: str) -> str:
    """The last rule that matches, the agent's after the others; without any, it is asked."""
    raw, found = plain_values(tree), "ask"
    for rules in (raw.get("permission", {}), raw["agent"].get("a", {}).get("permission", {})):
        for name, patterns in rules.items():
            for pattern, action in (patterns if isinstance(patterns, dict) else {"*": patterns}).items():
                if fnmatchcase(permission, name) and fnmatchcase(call, pattern):
                    found = action
    return found


@given(documents(["allow", "ask", "deny"]), documents(["ask", "deny"]))
def test_no_rule_of_an_untrusted_project_loosens_a_rule_of_the_user(
    user: dict[str, Any], project: dict[str, Any]
) -> None:
    before = after = tree_of(user)
    for path, rules in split_rules(tree_of(project))[1].items():
        after, _ = tighten_rules(after, path, rules)
    for call in CALLS:
        assert STRICTNESS[verdict(after, *call)] >= STRICTNESS[verdict(before, *call)], call


@pytest.mark.parametrize(
    ("user", "project", "result"),
    [
        ({"bash": "allow"}, {"bash": "deny"}, {"bash": {"*": "deny"}}),
        ({"bash": "allow"}, {"bash": {"rm": "ask"}}, {"bash": {"*": "allow", "rm": "ask"}}),
        ({"bash": "deny"}, {"bash": "ask"}, {"bash": {"*": "deny"}}),
        # Were `bash` moved to the end, as a trusted file moves it, the user's `*` would lose to it.
        (
            {"bash": "allow", "*": "deny"},
            {"bash": {"rm": "deny"}},
            {"bash": {"*": "allow", "rm": "deny"}, "*": "deny"},
        ),
        ({"*": "deny"}, {"bash": "ask"}, {"*": "deny"}),
        ({}, {"bash": {"*": "deny", "ls": "ask"}}, {"bash": {"*": "deny", "ls": "ask"}}),
    ],
)
def test_a_rule_counts_where_it_is_stricter(
    user: dict[str, Any], project: dict[str, Any], result: dict[str, Any]
) -> None:
    tree = tree_of({"permission": user})
    for path, rules in split_rules(tree_of({"permission": project}))[1].items():
        tree, _ = tighten_rules(tree, path, rules)
    assert plain_values(tree)["permission"] == result
    assert list(plain_values(tree)["permission"]) == list(result)
