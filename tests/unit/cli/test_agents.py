"""Who works here and with what: commands that only look."""

from collections.abc import Callable

import msgspec
import pytest
from click.testing import Result

from asyncagents.cli.run.arguments import session_rules
from asyncagents.domain.conversation.session import Rule
from tests.support.environment import ConfigDesk

Invoke = Callable[..., Result]
ADA = "---\ndescription: Counts things.\nmode: subagent\nmodel: local/m\n---\nYou are Ada.\n"


@pytest.mark.spec("A-01", "X-06")
def test_agents_are_listed_with_where_they_come_from(invoke: Invoke, desk: ConfigDesk) -> None:
    path = desk.write(".asyncagents/agents/ada.md", ADA)
    listed = invoke("agents")
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert listed.exit_code == 0
    assert rows["*"].split()[:3] == ["*", "build", "primary"]
    assert rows["ada"].split()[:4] == ["ada", "subagent", "local/m", str(path)]
    assert rows["ada"].endswith("Counts things.")
    assert "compaction" not in listed.stdout
    assert "compaction" in invoke("agents", "--all").stdout
    assert not (desk.home.parent / "data").exists()


@pytest.mark.spec("A-01", "A-03", "X-06")
def test_one_agent_is_shown_with_its_rules_by_layer_and_its_prompt(invoke: Invoke, desk: ConfigDesk) -> None:
    desk.write(".asyncagents/agents/ada.md", ADA.replace("model: local/m", "permission:\n  bash: deny"))
    desk.write("asyncagents.json", {"permission": {"edit": "ask"}})
    shown, in_json = invoke("agents", "ada"), invoke("agents", "ada", "--json")
    assert shown.exit_code == 0
    config, agent = shown.stdout.index("rules, config:"), shown.stdout.index("rules, agent:")
    assert "ask  edit  *" in shown.stdout[config:agent]
    assert "deny  bash  *" in shown.stdout[agent:]
    assert shown.stdout.endswith("prompt:\nYou are Ada.\n")
    told = msgspec.json.decode(in_json.stdout)
    assert told["rules"]["agent"] == [{"permission": "bash", "pattern": "*", "action": "deny"}]
    assert told["prompt"].strip() == "You are Ada."
    assert told["default"] is False


@pytest.mark.spec("A-01")
def test_a_broken_agent_file_is_warned_of_and_agents_are_still_listed(
    invoke: Invoke, desk: ConfigDesk
) -> None:
    path = desk.write(".asyncagents/agents/bad.md", "no head")
    listed = invoke("agents")
    assert listed.exit_code == 0
    assert ("build" in listed.stdout) is True
    assert listed.stderr.startswith(f"warning: {path} has no head")


def test_an_unknown_agent_is_refused_with_a_suggestion(invoke: Invoke) -> None:
    for words in (("agents", "biuld"), ("tools", "--agent", "biuld")):
        refused = invoke(*words)
        assert refused.exit_code == 2
        assert "there is no agent 'biuld': did you mean 'build'?" in refused.stderr


@pytest.mark.spec("A-05", "X-06")
def test_tools_are_listed_with_the_actions_of_their_rules(invoke: Invoke, desk: ConfigDesk) -> None:
    desk.write("asyncagents.json", {"permission": {"bash": {"*": "ask", "git *": "allow"}}})
    rows = {row["name"]: row for row in msgspec.json.decode(invoke("tools", "--json").stdout)}
    assert rows["edit"]["action"] == "allow"
    assert rows["edit"]["effect"] == "once"
    assert rows["write"]["permission"] == "edit"
    assert rows["bash"]["action"] == "ask"
    assert rows["bash"]["exceptions"] == [{"pattern": "git *", "action": "allow"}]
    assert {"pattern": "*.env", "action": "ask"} in rows["read"]["exceptions"]
    assert "read       allow (ask *.env" in invoke("tools").stdout


@pytest.mark.spec("A-04", "A-05")
def test_tools_that_an_agent_does_not_see_are_listed_on_request(invoke: Invoke) -> None:
    seen, everything = invoke("tools", "--agent", "plan"), invoke("tools", "--agent", "plan", "--all")
    assert not any(line.startswith("edit") for line in seen.stdout.splitlines())
    assert any(line.startswith("edit") and "deny, hidden" in line for line in everything.stdout.splitlines())


def test_without_a_data_directory_there_are_no_open_asks(invoke: Invoke, desk: ConfigDesk) -> None:
    here, everywhere, in_json = invoke("asks"), invoke("asks", "--all"), invoke("asks", "--json")
    assert here.exit_code == 0
    assert here.stdout == ""
    assert in_json.stdout == '{"asks":[],"calls":[]}\n'
    assert here.stderr == f"no open asks in {desk.project}; --all looks everywhere\n"
    assert everywhere.stderr == "no open asks\n"
    assert invoke("answer", "per_1", "once").exit_code == 2
    assert not (desk.home.parent / "data").exists()


@pytest.mark.spec("A-03")
def test_deny_rules_of_the_command_line_follow_the_allow_rules() -> None:
    rules = session_rules(["bash:git *", "write"], ["edit:~/x", "bash:git push *"], "/home/ada")
    assert rules == (
        Rule(permission="bash", pattern="git *", action="allow"),
        Rule(permission="edit", pattern="*", action="allow"),
        Rule(permission="edit", pattern="/home/ada/x", action="deny"),
        Rule(permission="bash", pattern="git push *", action="deny"),
    )


@pytest.mark.parametrize("word", ["", ":x", " :x"])
def test_a_rule_needs_a_permission(invoke: Invoke, word: str) -> None:
    refused = invoke("run", "Hi", "--allow", word)
    assert refused.exit_code == 2
    assert "--allow takes PERMISSION or PERMISSION:PATTERN" in refused.stderr


@pytest.mark.spec("X-03", "X-06")
def test_an_agent_with_a_backend_is_listed_with_its_command(invoke: Invoke, desk: ConfigDesk) -> None:
    desk.write("asyncagents.json", {"agent": {"reviewer": {"backend": {"acp": ["opencode", "acp"]}}}})
    assert "reviewer  subagent  acp: opencode acp" in invoke("agents").stdout
    assert "\nbackend: acp: opencode acp\n" in invoke("agents", "reviewer").stdout
    shown = msgspec.json.decode(invoke("agents", "reviewer", "--json").stdout)
    assert shown["backend"] == {"command": ["opencode", "acp"]}
