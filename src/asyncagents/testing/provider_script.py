"""Which reply answers a request: read from the request, counted only where a script asks for it."""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from asyncagents.domain.text import without_reminders
from asyncagents.testing.provider_reply import Reply, Script

LOG = logging.getLogger(__name__)
OPEN, CLOSE = re.compile(r"\[\[\s*(?={)"), re.compile(r"\s*\]\]")

_json = json.JSONDecoder()


class Playbook:
    """Picks replies by the script, by a directive inside the prompt, or else `otherwise`."""

    def __init__(self, script: Script, *, otherwise: Reply) -> None:
        self._script = script
        self._otherwise = otherwise
        self._used: Counter[tuple[str, int]] = Counter()

    def pick(self, messages: Sequence[Any]) -> Reply:
        """The reply after those already played since the last user text that says what to play.

        Any user text that the script knows does; a directive does only in the last user text.
        """
        played = 0
        last = True
        for message in reversed(messages):
            role = message.get("role")
            texts = user_texts(message) if role == "user" else []
            if role == "assistant":
                played += 1
            for text in map(without_reminders, texts):
                replies = self._script.get(text) or (directive(text) if last else None)
                if replies:
                    return self._step(text, replies, played)
            last = last and not texts
        return self._otherwise

    def _step(self, prompt: str, replies: Sequence[Reply], played: int) -> Reply:
        """A failure that was used up has left nothing in the history, so it counts for no step."""
        for number, reply in enumerate(replies):
            if not reply.times:
                if not played:
                    return reply
                played -= 1
            elif self._used[prompt, number] < reply.times:
                self._used[prompt, number] += 1
                return reply
            elif not reply.failed:
                played = max(0, played - reply.times)
        return self._otherwise


def user_texts(message: dict[str, Any]) -> list[str]:
    """The texts of one message of either wire, the last one first, then all of them as one."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    found = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    texts = [text for text in found if isinstance(text, str)]
    return [*reversed(texts), "\n".join(texts)] if len(texts) > 1 else texts


def directive(text: str) -> list[Reply] | None:
    """The replies of the first `[[{…}]]` in the text that can be read as such."""
    for found in _objects(text):
        steps = found.pop("steps", [{}])
        try:
            return [msgspec.convert({**found, **step}, Reply) for step in steps]
        except (msgspec.ValidationError, TypeError) as error:
            LOG.warning("a directive in a prompt is left out of account: %s", error)
    return None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for opened in OPEN.finditer(text):
        try:
            found, end = _json.raw_decode(text, opened.end())
        except (ValueError, RecursionError):
            continue
        if CLOSE.match(text, end):
            yield found
