"""Make the schema of an MCP server's tool safe for the prompt: its texts must contain no tag of ours."""

from typing import Any

from asyncagents.domain.envelope import escape_tags

_TEXT_KEYS = frozenset({"description", "title", "$comment"})


def enclose_schema(value: Any, about: str = "") -> Any:
    """Enclose tags in the descriptive texts of a schema; names and choices, which a call repeats, stay."""
    match value:
        case str():
            return escape_tags(value) if about in _TEXT_KEYS else value
        case list():
            return [enclose_schema(each, about) for each in value]
        case dict():
            return {name: enclose_schema(each, name) for name, each in value.items()}
        case _:
            return value


def names_tag(value: Any, about: str = "") -> bool:
    """Return whether a name or a choice at any depth of a schema contains a tag of ours."""
    match value:
        case str():
            return about not in _TEXT_KEYS and escape_tags(value) != value
        case list():
            return any(names_tag(each, about) for each in value)
        case dict():
            return any(names_tag(name) or names_tag(each, name) for name, each in value.items())
        case _:
            return False
