"""Files laid over each other: objects merge, the later value wins, and each value knows its file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncagents.config.tree import ConfigLeaf, build_tree, dotted_path, leaves, merge_trees, plain_values
from tests.support.environment import ConfigDesk

objects = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), st.integers() | inner, max_size=3),
    max_leaves=12,
)


@given(objects, objects)
def test_a_merge_keeps_every_upper_value_and_takes_the_rest_from_below(
    under: dict[str, object], over: dict[str, object]
) -> None:
    low = build_tree(under, lambda _, value: ConfigLeaf(value, "low"))
    high = build_tree(over, lambda _, value: ConfigLeaf(value, "high"))
    merged = dict(leaves(merge_trees(low, high)))
    assert merged.items() >= dict(leaves(high)).items()
    for path, leaf in merged.items():
        assert leaf == dict(leaves(high if leaf.origin == "high" else low))[path]


@given(objects)
def test_a_tree_converts_back_to_its_object(value: dict[str, object]) -> None:
    assert plain_values(build_tree(value, lambda _, below: ConfigLeaf(below, "f"))) == value


def test_objects_merge_deeply_and_lists_are_replaced(desk: ConfigDesk) -> None:
    desk.write(
        "opencode.json",
        {
            "provider": {"x": {"name": "X", "options": {"baseURL": "http://a", "region": "eu"}}},
            "disabled_providers": ["openai", "xai"],
        },
    )
    desk.write(
        "asyncagents.json",
        {"provider": {"x": {"options": {"baseURL": "http://b"}}}, "disabled_providers": ["groq"]},
    )
    loaded = desk.load()
    provider = loaded.config.provider["x"]
    assert provider.name == "X"
    assert provider.base_url == "http://b"
    assert provider.options == {"region": "eu"}
    assert loaded.config.disabled_providers == ("groq",)
    assert loaded.origins["provider.x.name"] == str(desk.project / "opencode.json")
    assert loaded.origins["provider.x.options.baseURL"] == str(desk.project / "asyncagents.json")


def test_instructions_and_plugins_add_up(desk: ConfigDesk) -> None:
    low = desk.write("opencode.json", {"instructions": ["A.md", "B.md"], "plugin": ["p", ["q", {"n": 1}]]})
    high = desk.write("asyncagents.json", {"instructions": ["C.md", "A.md"], "plugin": [["p", {"n": 2}]]})
    loaded = desk.load()
    assert loaded.config.instructions == ("B.md", "C.md", "A.md")
    assert loaded.config.plugin == ("q", "p")
    assert loaded.config.plugin_options == {"q": {"n": 1}, "p": {"n": 2}}
    assert loaded.origins["instructions"] == f"{low}, {high}"


def test_a_plugin_given_as_a_path_is_beside_its_file(desk: ConfigDesk) -> None:
    desk.write("~/.config/asyncagents/asyncagents.json", {"plugin": ["./one.py", ["~/two.py", {}], "three"]})
    folder = desk.home / ".config" / "asyncagents"
    assert desk.load().config.plugin == (str(folder / "one.py"), str(desk.home / "two.py"), "three")


def test_a_rule_of_a_later_file_comes_behind_the_earlier_ones(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"permission": {"bash": "allow", "edit": "ask", "*": "ask"}})
    desk.write("asyncagents.json", {"permission": {"bash": "deny"}})
    assert list(desk.load().config.permission.items()) == [("edit", "ask"), ("*", "ask"), ("bash", "deny")]


def test_an_action_for_all_stays_under_the_patterns_of_a_later_file(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"permission": {"bash": "ask"}, "agent": {"a": {"permission": "deny"}}})
    desk.write(
        "asyncagents.json",
        {"permission": {"bash": {"git *": "allow"}}, "agent": {"a": {"permission": {"read": "allow"}}}},
    )
    config = desk.load().config
    assert config.permission == {"bash": {"*": "ask", "git *": "allow"}}
    assert list(config.agent["a"].permission.items()) == [("*", "deny"), ("read", "allow")]


def test_the_order_of_patterns_is_kept(desk: ConfigDesk) -> None:
    desk.write("opencode.json", '{"permission": {"bash": {"z *": "allow", "*": "ask", "a *": "deny"}}}')
    [rules] = desk.load().config.permission.values()
    assert isinstance(rules, dict)
    assert list(rules) == ["z *", "*", "a *"]


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (("provider", "openai", "models", "gpt-4.1"), 'provider.openai.models."gpt-4.1"'),
        (("permission", "bash", "git *"), 'permission.bash."git *"'),
        (("permission", "*"), "permission.*"),
    ],
)
def test_a_key_with_a_dot_or_a_blank_in_it_is_quoted(path: tuple[str, ...], key: str) -> None:
    assert dotted_path(path) == key
