"""Wrong types are errors that name file, key and expectation; unknown keys are warnings with a suggestion."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.config.file.check import check_data, suggestion
from asyncagents.config.file.shape import ConfigFile
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk

# Every key of OpenCode 1.18's published shape, and older ones that its documentation still names.
OPENCODE_KEYS = {
    "$schema",
    "agent",
    "attachment",
    "autoshare",
    "autoupdate",
    "command",
    "compaction",
    "default_agent",
    "disabled_providers",
    "enabled_providers",
    "enterprise",
    "experimental",
    "formatter",
    "instructions",
    "keybinds",
    "layout",
    "logLevel",
    "lsp",
    "mcp",
    "mode",
    "model",
    "permission",
    "plugin",
    "provider",
    "reference",
    "references",
    "server",
    "share",
    "shell",
    "skills",
    "small_model",
    "snapshot",
    "subagent_depth",
    "theme",
    "tool_output",
    "tools",
    "tui",
    "username",
    "watcher",
}


def warnings_of(data: dict[str, Any]) -> list[str]:
    return check_data(data, "f", family="asyncagents", secret=lambda _: False)[1]


def refusal_of(data: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check_data(data, "f", family="asyncagents", secret=lambda _: False)
    return str(caught.value)


def test_every_key_of_opencode_is_known() -> None:
    assert set(ConfigFile.__struct_encode_fields__) >= OPENCODE_KEYS


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([], "f: the whole must be an object, not a list"),
        ({"model": 3}, "f: model must be a string, not a number"),
        ({"model": None}, "f: model must be a string, not null"),
        ({"instructions": "A.md"}, "f: instructions must be a list, not a string"),
        ({"instructions": ["A.md", True]}, "f: instructions.1 must be a string, not true"),
        (
            {"provider": {"x": {"options": {"apiKey": 42}}}},
            "f: provider.x.options.apiKey must be a string, not a number",
        ),
        (
            {"provider": {"x": {"models": {"m.1": {"limit": {"context": "8k"}}}}}},
            'f: provider.x.models."m.1".limit.context must be a whole number of 0 or more, not a string',
        ),
        (
            {"provider": {"x": {"concurrency": 0}}},
            "f: provider.x.concurrency must be a whole number of 1 or more, not 0",
        ),
        (
            {"provider": {"x": {"models": {"m": {"cost": {"input": -1.5}}}}}},
            "f: provider.x.models.m.cost.input must be a number from 0 to 1,000,000, not -1.5",
        ),
        (
            {"provider": {"x": {"models": {"m": {"cost": {"context_over_200k": {"output": 1e308}}}}}}},
            "f: provider.x.models.m.cost.context_over_200k.output must be a number from 0 to 1,000,000, "
            "not 1e+308",
        ),
        (
            {"provider": {"x": {"options": {"timeout": "5m"}}}},
            "f: provider.x.options.timeout must be a whole number of 1 or more, true or false, not a string",
        ),
        ({"hook_seconds": 0}, "f: hook_seconds must be a number above 0, up to 600, not 0"),
        ({"hook_seconds": 601}, "f: hook_seconds must be a number above 0, up to 600, not 601"),
        (
            {"todo_enforcer": 1001},
            "f: todo_enforcer must be true, false or a whole number from 0 to 1,000, not 1001",
        ),
        ({"agent": {"a": {"temperature": True}}}, "f: agent.a.temperature must be a number, not true"),
        ({"agent": {"a": {"hidden": "yes"}}}, "f: agent.a.hidden must be true or false, not a string"),
        (
            {"agent": {"a": {"mode": "Primary"}}},
            'f: agent.a.mode must be "all", "primary" or "subagent", not "Primary": did you mean "primary"?',
        ),
        (
            {"permission": {"bash": {"rm *": "nope"}}},
            'f: permission.bash."rm *" must be "allow", "ask" or "deny", not "nope"',
        ),
        (
            {"permission": {"bash": ["ask"]}},
            'f: permission.bash must be "allow", "ask", "deny" or an object, not a list',
        ),
        (
            {"delegation": {"seconds": "5m"}},
            "f: delegation.seconds must be a number above 0, up to 31,536,000 or null, not a string",
        ),
        ({"plugin": [["p"]]}, "f: plugin.0 must be a string or a list of a name and an object, not a list"),
    ],
)
def test_a_wrong_type_names_the_key_the_expected_and_the_found_type(data: Any, error: str) -> None:
    assert refusal_of(data) == error


@pytest.mark.parametrize("seconds", [600, 0.5, None])
def test_the_time_of_a_task_is_a_number_or_null(desk: ConfigDesk, seconds: float | None) -> None:
    desk.write("asyncagents.json", {"delegation": {"seconds": seconds}})
    assert desk.load().config.delegation.seconds == seconds


def test_an_error_of_a_file_names_the_file(desk: ConfigDesk) -> None:
    file = desk.write("asyncagents.jsonc", '{"small_model": []}')
    with pytest.raises(ConfigError, match=rf"^{file}: small_model must be a string, not a list$"):
        desk.load()


def test_a_value_that_was_filled_in_is_not_quoted(desk: ConfigDesk) -> None:
    desk.variables = {"WHATEVER": "sk-secret"}
    desk.write("opencode.json", {"permission": {"bash": "{env:WHATEVER}"}})
    with pytest.raises(ConfigError, match=r"not a string$"):
        desk.load()


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        ({"modle": "a/b"}, 'f: the key modle is unknown and is ignored: did you mean "model"?'),
        (
            {"provider": {"x": {"option": {}}}},
            'f: the key provider.x.option is unknown and is ignored: did you mean "options"?',
        ),
        (
            {"provider": {"x": {"options": {"baseUrl": "http://a"}}}},
            'f: the key provider.x.options.baseUrl is unknown and is passed on: did you mean "baseURL"?',
        ),
        (
            {"agent": {"a": {"temprature": 1}}},
            'f: the key agent.a.temprature is unknown and is passed on: did you mean "temperature"?',
        ),
        ({"qqq": 1}, "f: the key qqq is unknown and is ignored: remove it or correct its name"),
    ],
)
def test_an_unknown_key_is_warned_of_with_a_suggestion(data: dict[str, Any], warning: str) -> None:
    assert warnings_of(data) == [warning]


@pytest.mark.parametrize(
    "data",
    [
        {"agent": {"a": {"reasoningEffort": "high", "textVerbosity": "low"}}},
        {"provider": {"x": {"options": {"region": "eu", "profile": "p", "organization": "o"}}}},
        {"experimental": {"anything": True}},
        {"theme": "dark", "keybinds": {"leader": "ctrl+x"}, "tui": {}, "lsp": False, "share": 7},
    ],
)
def test_open_and_unused_keys_take_any_value_without_a_warning(data: dict[str, Any]) -> None:
    assert warnings_of(data) == []


def test_an_asyncagents_key_in_opencodes_file_is_taken_and_warned_of(desk: ConfigDesk) -> None:
    file = desk.write("opencode.json", {"provider": {"openai": {"concurrency": 3}}})
    loaded = desk.load()
    assert loaded.config.provider["openai"].concurrency == 3
    assert loaded.warnings == (
        f"{file}: OpenCode refuses the key provider.openai.concurrency: write it in asyncagents.json",
    )
    file.rename(desk.project / "asyncagents.json")
    assert desk.load().warnings == ()


def test_keys_that_count_for_nothing_are_not_among_the_settings(desk: ConfigDesk) -> None:
    desk.write("opencode.json", {"theme": "dark", "modle": "x", "$schema": "y", "default_agent": "plan"})
    assert desk.load().origins.keys() == {"data_dir", "default_agent", "compaction.auto", "compaction.prune"}


def test_a_suggestion_ignores_case_and_needs_a_similar_name() -> None:
    assert suggestion("BASEURL", ["baseURL", "apiKey"]) == "baseURL"
    assert suggestion("zebra", ["baseURL", "apiKey"]) is None


names = st.sampled_from(
    [*ConfigFile.__struct_encode_fields__, "x", "options", "models", "apiKey", "limit", "*"]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "ask", "a/b", "{env:X}", "http://h"])
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(names, documents, max_size=4))
def test_any_document_is_taken_or_refused_in_one_sentence(desk: ConfigDesk, document: dict[str, Any]) -> None:
    file = desk.write("asyncagents.json", document)
    error = ""
    try:
        desk.load()
    except ConfigError as refused:
        error = str(refused)
    assert not error or error.startswith(f"{file}: ")
    assert "\n" not in error
