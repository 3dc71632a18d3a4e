"""The schema of a tool as an MCP server gives it: its words are data, in which no tag of ours stands."""

from typing import Any

from asyncagents.domain.envelope import enclosed

_IN_WORDS = frozenset({"description", "title", "$comment"})


def enclose_schema(value: Any, about: str = "") -> Any:
    """Enclose what a schema says in words. What a call must repeat, as names and choices, stays as it is."""
    match value:
        case str():
            return enclosed(value) if about in _IN_WORDS else value
        case list():
            return [enclose_schema(each, about) for each in value]
        case dict():
            return {name: enclose_schema(each, name) for name, each in value.items()}
        case _:
            return value


def names_tag(value: Any, about: str = "") -> bool:
    """Say whether a name or a choice in a schema, however deep, holds a tag of ours."""
    match value:
        case str():
            return about not in _IN_WORDS and enclosed(value) != value
        case list():
            return any(names_tag(each, about) for each in value)
        case dict():
            return any(names_tag(name) or names_tag(each, name) for name, each in value.items())
        case _:
            return False
