"""Which values are not for eyes: by the name they stand under, and by what they look like."""

import re
from typing import Any

from asyncagents.config.tree import KeyPath

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(r"((^|_)(api)?(key|token|secret|authorization|credentials?|cookie)|passw(or)?d)$")
_TEXT = re.compile(r"[?&][\w-]*(key|token|secret|password)=|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
# Whatever a server is sent to know us by.
_PARENTS = {"headers", "environment"}


def is_secret_name(name: str) -> bool:
    """`apiKey`, `X-Api-Key`, `GITHUB_TOKEN`; not `max_tokens`, not `keybinds`."""
    return _NAME.search(_CAMEL.sub("_", name).lower().replace("-", "_")) is not None


def is_hidden(path: KeyPath, value: Any) -> bool:
    """Whether this value of a file must never be printed."""
    if isinstance(value, list):
        return any(is_hidden(path, item) for item in value)
    if not isinstance(value, str):
        return False
    return is_secret_name(path[-1]) or not _PARENTS.isdisjoint(path[:-1]) or bool(_TEXT.search(value))
