"""Make tool names of past calls valid for every wire: models call tools by invented names."""

import re

NAMELESS = "unknown"
"""The name of a call that has none."""

LONGEST = 64
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")


def wire_name(tool: str) -> str:
    """Return a valid name for a call in a history; providers refuse requests with an invalid one."""
    return _NOT_IN_NAME.sub("_", tool)[:LONGEST] or NAMELESS
