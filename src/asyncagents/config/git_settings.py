"""Git settings for processes that agents start; they override a repository's configuration."""

from collections.abc import Mapping

ALWAYS: Mapping[str, str] = {
    "safe.bareRepository": "explicit",  # else git obeys any folder that looks like a repository
    "core.fsmonitor": "false",  # else `git status` starts the program that it names
}
UNATTENDED: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "protocol.ext.allow": "never",  # else an address can be a command
}
"""Further settings for a command that rules allowed without an ask."""


def with_git_settings(variables: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the settings added; git prefers them to any configuration file."""
    count = variables.get("GIT_CONFIG_COUNT", "0")
    start = int(count) if count.isdecimal() else 0
    added = {"GIT_CONFIG_COUNT": str(start + len(settings))}
    for number, (key, value) in enumerate(settings.items(), start):
        added |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**variables, **added}
