"""Hide secrets in the command or the URL of a program, so that the rest can be stored and shown."""

import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from asyncagents.config.file.redact import is_secret_text, secrets_in

HIDDEN = "…"
# A run of letters and digits that no word and no folder has, or a UUID.
_RANDOM = re.compile(
    r"(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{20,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE
)


def hide_in_command(words: Sequence[str]) -> tuple[str, ...]:
    """Return a command with "…" for each secret: the X of `--token=X`, or a word that looks like one."""
    named = [value for value in secrets_in(words) if value]
    return tuple(_hide_word(word, named) for word in words)


def _hide_word(word: str, named: Sequence[str]) -> str:
    for value in named:
        if word == value or word.endswith((f"={value}", f":{value}", f" {value}")):
            word = word.removesuffix(value) + HIDDEN
    return HIDDEN if is_secret_text(word) or _RANDOM.search(word) else word


def hide_in_url(url: str) -> str:
    """Return a URL, with "…" for its path, query and user if one of them may be a secret."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if plain and not is_secret_text(url) and not _RANDOM.search(url):
        return url
    return f"{parts.scheme}://{host}/{HIDDEN}"


def command_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """List the texts that `hide_in_command` hides."""
    shown = hide_in_command(words)
    hidden = [word for word, left in zip(words, shown, strict=True) if left != word]
    return (*secrets_in(words), *hidden, *(run for word in hidden for run in _RANDOM.findall(word)))


def url_secrets(url: str | None) -> tuple[str, ...]:
    """List the password, query values and random texts of a URL, each as written and decoded."""
    before, _, query = (url or "").partition("?")
    values = [pair.partition("=")[2] for pair in query.split("&")]
    login = before.partition("://")[2].partition("/")[0].rpartition("@")[0]
    written = [query, *values, login.partition(":")[2], *_RANDOM.findall(before)]
    return (*written, *map(unquote, written))
