"""Agents, commands and skills as people write them for OpenCode and Claude Code, and as an attacker would."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.markdown.commands import find_commands
from asyncagents.config.markdown.front_matter import parse_front_matter
from asyncagents.config.markdown.skills import find_skills, read_skill
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk

OPENCODE_AGENT = """---
# Reviews, never writes.
description: >-
  Reviews code for best practices
  and potential issues.

  Use it before a commit.
mode: subagent
model: anthropic/claude-sonnet-4-20250514
temperature: 0.1
tools:
  write: false
  edit: false
  mymcp_*: true
permission:
  edit: deny
  webfetch: allow
  bash:
    "*": ask
    git diff: allow
    git log*: allow
    src/**/test_*.py: ask
    'rm -rf *': deny
color: "#38A3EE"
---

You are in code review mode. Focus on:

- Code quality: names, sizes
"""

CLAUDE_AGENT = """---
name: test-runner
description: Use this agent when you need to run tests. Examples:\\n\\n<example>\\nContext: The user \
has written code.\\nuser: "Run the tests"\\nassistant: "I'll use the test-runner agent: it is quick"\\n\
</example>
tools: Read, Grep, Glob, Bash, mcp__github__list_issues
disallowedTools:
  - WebFetch
  - Write
model: inherit
color: green
hooks:
  PreToolUse:
    - matcher: "Bash"
      hooks:
        - type: command
          command: "./scripts/validate.sh $TOOL_INPUT"
    - matcher: Edit|Write
      hooks: [{type: command, command: ./lint.sh}]
---

You run tests 🧪.
"""

CLAUDE_COMMAND = """---
allowed-tools: Bash(git add:*), Bash(git status:*), Bash(git commit:*)
argument-hint: [pr-number] [priority] [assignee]
description: 🚀 Create a git commit: staged changes only
model: inherit
---

Commit $ARGUMENTS.
"""

OPENCODE_COMMAND = """---
description: "Run tests with coverage"
agent: build
subtask: on demand
---
Run `npm test`.
"""

CLAUDE_SKILL = """---
name: pdf-forms
description: |
  Fill PDF forms: fields, signatures, checkboxes.
  Use when the user mentions:
    - forms
    - PDFs
license: Apache-2.0
allowed-tools: [Read, "Bash(python *)", Bash(pdftk:*)]
argument-hint: [filename] [format]
metadata:
  version: 1.10
  released: 2026-01-31
  authors:
    - name: Ada
      mail: ada@example.org
    - {name: Bob, tags: [x, y]}
  enabled: yes
---
# PDF forms

Read FORMS.md.
"""


def test_an_agent_of_opencode_is_read(desk: ConfigDesk) -> None:
    desk.write(".opencode/agent/review.md", OPENCODE_AGENT)
    found = find_agents(desk.environment, desk.project, trusted=True)
    agent = found.agents["review"]
    assert found.all_warnings == ()
    assert agent.color == "#38A3EE"
    assert agent.config.temperature == 0.1
    assert (
        agent.config.description
        == "Reviews code for best practices and potential issues.\nUse it before a commit."
    )
    assert agent.config.tools == {"write": False, "edit": False, "mymcp_*": True}
    assert agent.config.permission["bash"] == {
        "*": "ask",
        "git diff": "allow",
        "git log*": "allow",
        "src/**/test_*.py": "ask",
        "rm -rf *": "deny",
    }
    assert agent.config.prompt == "You are in code review mode. Focus on:\n\n- Code quality: names, sizes"


def test_an_agent_of_claude_code_is_read(desk: ConfigDesk) -> None:
    desk.write(".claude/agents/runner.md", CLAUDE_AGENT)
    found = find_agents(desk.environment, desk.project, trusted=True)
    config = found.agents["test-runner"].config
    assert found.broken == ()
    assert config.description is not None
    assert config.description.startswith(
        "Use this agent when you need to run tests. Examples:\\n\\n<example>"
    )
    assert config.description.endswith(
        """assistant: "I'll use the test-runner agent: it is quick"\\n</example>"""
    )
    allowed = dict.fromkeys(("read", "grep", "glob", "bash", "mcp__github__list_issues"), "allow")
    assert config.permission == {"*": "deny", **allowed, "webfetch": "deny", "edit": "deny"}
    assert config.options["hooks"]["PreToolUse"][1] == {
        "matcher": "Edit|Write",
        "hooks": [{"type": "command", "command": "./lint.sh"}],
    }
    assert config.prompt == "You run tests 🧪."


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_commands_are_read_with_any_line_end_and_a_byte_order_mark(
    desk: ConfigDesk, start: str, end: str
) -> None:
    path = desk.write(".claude/commands/commit.md", "")
    path.write_bytes((start + CLAUDE_COMMAND.replace("\n", end)).encode())
    desk.write(
        ".opencode/command/test.md", OPENCODE_COMMAND.replace("subtask: on demand\n", "subtask: true\n")
    )
    found = find_commands(desk.environment, desk.project, trusted=True, configured={})
    assert found.broken == ()
    assert found.commands["commit"].config.description == "🚀 Create a git commit: staged changes only"
    assert found.commands["commit"].config.template == "Commit $ARGUMENTS."
    assert found.commands["test"].config.agent == "build"
    assert found.commands["test"].config.subtask is True


def test_a_value_of_a_wrong_type_names_its_key(desk: ConfigDesk) -> None:
    path = desk.write(".opencode/command/test.md", OPENCODE_COMMAND)
    found = find_commands(desk.environment, desk.project, trusted=True, configured={})
    assert found.all_warnings == (
        f"{path} has a head that cannot be used: command.test.subtask must be true or false, not a string",
    )


def test_a_skill_of_claude_code_is_read(desk: ConfigDesk) -> None:
    desk.write(".claude/skills/pdf/SKILL.md", CLAUDE_SKILL)
    found = find_skills(desk.environment, desk.project, trusted=True)
    assert found.all_warnings == ()
    assert found.skills["pdf-forms"].description == (
        "Fill PDF forms: fields, signatures, checkboxes. Use when the user mentions: - forms - PDFs"
    )
    assert read_skill(found.skills["pdf-forms"]) == "# PDF forms\n\nRead FORMS.md."
    matter = parse_front_matter(CLAUDE_SKILL)
    assert matter is not None
    assert matter.data["allowed-tools"] == ["Read", "Bash(python *)", "Bash(pdftk:*)"]
    assert matter.data["metadata"] == {
        "version": 1.1,
        "released": "2026-01-31",
        "authors": [{"name": "Ada", "mail": "ada@example.org"}, {"name": "Bob", "tags": ["x", "y"]}],
        "enabled": "yes",
    }


@pytest.mark.parametrize(
    ("head", "error"),
    [
        ("tools:\n\twrite: false", "line 3 is indented with a tab: use spaces"),
        ("description: x\n\tmode: all", "line 3 is indented with a tab: use spaces"),
        ("description: 'it's broken'", "line 2 goes on after its value"),
        ("permission:\n  *: deny", "line 3 begins with *: quote it"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "line 2 has a text that begins with &: quote it"),
        ("&a description: x", "line 2 begins with &: quote it"),
        ("a: x\nb: *a", "line 3 has a text that begins with *: quote it"),
        ("*a : x", "line 2 begins with *: quote it"),
        ("a: !!python/object/apply:os.system ['touch x']", "line 2 has a text that begins with !: quote it"),
        ("!!python/name:os.system : x", "line 2 begins with !: quote it"),
        ("--- !!python/object:os.x\na: b", "line 2 has a text that begins with !: quote it"),
        ("a: !!binary aGk=", "line 2 has a text that begins with !"),
        ("a: ! x", "line 2 has a text that begins with !"),
        ("a:\n  <<: {x: y}", "line 3 has the merge key <<: write the keys out"),
        ("<<: [{x: y}]", "line 2 has the merge key <<: write the keys out"),
        ("a: {b: 1, b: 2}", 'line 2 has the key "b" a second time'),
        ("'a': 1\na: 2", 'line 3 has the key "a" a second time'),
        ("? {a: b}\n: c", "line 2 has a text that begins with {: quote it"),
        ("a: " + "[" * 100_000, "line 2 "),
        ("a: " + "{a: " * 50_000, "line 2 "),
        ("\n".join("  " * n + "- a:" for n in range(500)), "line 2 begins with -: quote it"),
        ("a:\n" + "\n".join("  " * n + "- a:" for n in range(500)), "is nested more than 6 deep"),
        ("? " * 50_000, "line 2 "),
        ("a: " + '"' * 100_001, "line 2 "),
        ("k" * 100_000 + ": x", "line 2 "),
    ],
)
def test_an_invalid_or_hostile_head_is_refused_with_its_line_in_a_moment(
    desk: ConfigDesk, head: str, error: str
) -> None:
    path = desk.write(".opencode/agent/x.md", f"---\n{head}\n---\nHi")
    began = time.process_time()
    found = find_agents(desk.environment, desk.project, trusted=True)
    assert time.process_time() - began < 2
    assert found.agents == {}
    assert [each.path for each in found.broken] == [path]
    assert error in found.broken[0].reason


@pytest.mark.parametrize("line", ["a{n}: b: c\n", "a{n}: [x, y]\n", "'a{n}': 'x'\n"])
def test_a_long_head_is_read_in_a_moment(line: str) -> None:
    head = "".join(line.format(n=n) for n in range(1990))
    began = time.process_time()
    matter = parse_front_matter(f"---\n{head}---\n")
    assert matter is not None
    assert len(matter.data) == 1990
    assert time.process_time() - began < 2


def test_a_head_of_a_megabyte_is_refused(desk: ConfigDesk) -> None:
    path: Path = desk.write(".opencode/agent/x.md", "---\na: " + "x: y " * 200_000 + "\n---\nHi")
    found = find_agents(desk.environment, desk.project, trusted=True)
    assert [(each.path, each.reason) for each in found.broken] == [
        (path, "is longer than 262,144 characters: shorten it")
    ]


@pytest.mark.parametrize(
    "unit", [": ", "a: ", "- ", " ", "\t", "'", '"', "\\", " #", "\ud83d".encode("unicode_escape").decode()]
)
def test_long_lines_are_read_or_refused_in_a_moment(unit: str) -> None:
    began = time.process_time()
    with suppress(ConfigError):
        parse_front_matter("---\na: b: " + unit * (240_000 // len(unit)) + "\n" + unit * 1000 + "\n---\n")
    assert time.process_time() - began < 2
