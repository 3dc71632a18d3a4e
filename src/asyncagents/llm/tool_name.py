"""The name of a tool as every wire takes it back: models call tools by names that nobody ever gave them."""

import re

NAMELESS = "unknown"
"""Stands for the name of a call that has none."""

LONGEST = 64
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(tool: str) -> str:
    """For calls in a history: one odd name would have every later request refused."""
    return _NOT_IN_NAME.sub("_", tool)[:LONGEST] or NAMELESS
