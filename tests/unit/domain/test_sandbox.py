"""A child's sandbox is never wider than that of any agent it works for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.domain.agent.permission import LineageRules, RuleSet, narrow_to_parent
from asyncagents.domain.agent.sandbox import Sandbox, is_beneath, narrowest
from asyncagents.domain.conversation.session import Rule

ALL = (Rule(permission="*", pattern="*", action="allow"),)
NO_WEB = (*ALL, Rule(permission="webfetch", pattern="*", action="deny"))
PATHS = ["/", "/a", "/a/b", "/a/b/c", "/ab", "/d", "/d/e"]
SANDBOX = st.builds(
    Sandbox,
    write=st.lists(st.sampled_from(PATHS), max_size=4).map(tuple),
    network=st.sampled_from([True, False, None]),
)


def may_write(sandbox: Sandbox | None, path: str) -> bool:
    return sandbox is None or any(is_beneath(path, each) for each in sandbox.write)


@given(st.lists(SANDBOX, max_size=4))
def test_the_narrowest_sandbox_writes_only_paths_that_all_may_write(sandboxes: list[Sandbox]) -> None:
    together = narrowest(sandboxes)
    for path in PATHS:
        assert may_write(together, path) == all(may_write(each, path) for each in sandboxes)


@pytest.mark.parametrize(
    ("rules", "said", "network"),
    [
        (ALL, None, True),
        (NO_WEB, None, False),
        (NO_WEB, True, True),
        (ALL, False, False),
    ],
)
def test_the_network_follows_the_sandbox_or_else_the_rules_for_webfetch(
    rules: tuple[Rule, ...], said: bool | None, network: bool
) -> None:
    found = LineageRules((RuleSet(rules, sandbox=Sandbox(network=said)),)).sandbox
    assert found == Sandbox(network=network)


@pytest.mark.parametrize(
    ("child", "parent", "found"),
    [
        (None, None, None),
        (None, Sandbox(network=False), Sandbox(network=False)),
        (Sandbox(write=("/a",)), None, Sandbox(write=("/a",), network=True)),
        (Sandbox(write=("/a", "/b")), Sandbox(write=("/b/c",)), Sandbox(write=("/b/c",), network=True)),
        (Sandbox(network=True), Sandbox(network=False), Sandbox(network=False)),
    ],
)
def test_a_child_is_no_wider_than_its_parent(
    child: Sandbox | None, parent: Sandbox | None, found: Sandbox | None
) -> None:
    own, above = LineageRules((RuleSet(ALL, sandbox=child),)), LineageRules((RuleSet(ALL, sandbox=parent),))
    assert narrow_to_parent(own, above).sandbox == found


def test_a_child_has_no_network_where_its_parent_may_not_fetch() -> None:
    own, above = LineageRules((RuleSet(ALL, sandbox=Sandbox()),)), LineageRules((RuleSet(NO_WEB),))
    assert narrow_to_parent(own, above).sandbox == Sandbox(network=False)
