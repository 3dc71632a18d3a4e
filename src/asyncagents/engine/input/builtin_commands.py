"""Built-in slash commands; one of the same name in a project or the config takes precedence."""

from collections.abc import Mapping

from asyncagents.config.config import CommandConfig
from asyncagents.config.markdown.commands import CommandDefinition
from asyncagents.engine.workplace.agents import prompt_text

INIT, REVIEW = "init", "review"

_DESCRIPTIONS = {
    INIT: "Writes AGENTS.md, what agents should know of this project, or brings it up to date.",
    REVIEW: "Reviews changes: those not committed yet, or of a commit, a branch or a pull request.",
}
_SUBTASKS = {REVIEW}


def builtin_commands() -> Mapping[str, CommandDefinition]:
    return {
        name: CommandDefinition(
            name=name,
            scope="built in",
            config=CommandConfig(
                template=prompt_text("command-init" if name == INIT else "command-review"),
                description=described,
                subtask=True if name in _SUBTASKS else None,
            ),
        )
        for name, described in _DESCRIPTIONS.items()
    }
