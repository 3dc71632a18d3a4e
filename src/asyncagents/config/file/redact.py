"""Recognise secrets: by the name of their key, and by their form."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from asyncagents.config.tree import KeyPath

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(
    r"((^|_)((api)?(key|token|secrets?|authorization|credentials?|cookie)|auth|bearer|pat|access_key_id)"
    r"|passw(or)?d|passphrase)$"
)
_TEXT = re.compile(
    r"[?&][\w-]*(key|token|secret|password)=|://[^/\s@]+@"
    r"|\bbearer\s+\S|\b(sk-|gsk_|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AKIA)[\w-]{8}",
    re.IGNORECASE,
)
# A URL with any other query parameter may hold a secret: `sig`, `code` and the like are credentials too.
_QUERY = re.compile(r"\S+://\S*[?&](?!(?:alt|api-version|model|region|v|version)=)[^=&\s#]+=[^&\s#]\S*")
# `--api-key=…`, `API_KEY=…`, `Authorization: …`
_PAIR = re.compile(r"-*([\w-]+)\s*[=:]\s*(\S.*)", re.DOTALL)
# Objects whose values may all be credentials.
_PARENTS = {"headers", "environment"}
_DEEP = 2
"""The keys above this depth are chosen by people: a provider may be called `token`."""


def is_secret_name(name: str) -> bool:
    """Recognise `apiKey`, `X-Api-Key`, `GITHUB_TOKEN`; not `max_tokens`, not `keybinds`."""
    return _NAME.search(_CAMEL.sub("_", name).lower().replace("-", "_")) is not None


def is_secret_value(path: KeyPath, value: Any) -> bool:
    """Return whether this value of a file must never be printed."""
    match value:
        case list():
            return bool(secrets_in(value)) or any(is_secret_value(path, item) for item in value)
        case dict():
            return any(is_secret_value((*path, key), below) for key, below in value.items())
        case str():
            return _is_secret_path(path) or is_secret_text(value)
        case _:
            return False


def _is_secret_path(path: KeyPath) -> bool:
    named = (*path[_DEEP:-1], path[-1])
    return any(map(is_secret_name, named)) or not _PARENTS.isdisjoint(path[:-1])


def is_secret_text(text: str) -> bool:
    """Recognise a secret by its form: a URL with a user or a query, a token of a known form."""
    return bool(_TEXT.search(text) or _QUERY.fullmatch(text))


def secrets_in(words: Sequence[Any]) -> list[str]:
    """List the secrets of a command: the X in `--api-key X`, `--token=X`, `API_KEY=X`."""
    texts = [word for word in words if isinstance(word, str)]
    pairs = [(match[1], match[2]) for match in map(_PAIR.match, texts) if match]
    flags = [(word.lstrip("-"), value) for word, value in pairwise(texts) if word.startswith("-")]
    return [value for name, value in (*pairs, *flags) if is_secret_name(name)]
