"""Pick the reply to a request from the request itself; only replies with `times` are counted."""

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
    """Picks replies by the script, by a directive in the prompt, or else `otherwise`."""

    def __init__(self, script: Script, *, otherwise: Reply) -> None:
        self._script = script
        self._otherwise = otherwise
        self._used: Counter[tuple[str, int]] = Counter()

    def pick(self, messages: Sequence[Any]) -> Reply:
        """Return the reply after those already played since the last user text that selects replies.

        Any user text in the script selects replies; a directive only in the last user text.
        """
        played = 0
        last = True
        for message in reversed(messages):
            role = message.get("role")
            texts = user_texts(message) if role == "user" else []
            if role == "assistant":
                played += 1
            for text in map(without_reminders, texts):
                replies = self._script.get(text) or (parse_directive(text) if last else None)
                if replies:
                    return self._step(text, replies, played)
            last = last and not texts
        return self._otherwise

    def _step(self, prompt: str, replies: Sequence[Reply], played: int) -> Reply:
        """Return the next reply; a used-up failure left nothing in the history, so it is not a step."""
        for number, reply in enumerate(replies):
            if not reply.times:
                if not played:
                    return reply
                played -= 1
            elif self._used[prompt, number] < reply.times:
                self._used[prompt, number] += 1
                return reply
            elif not reply.is_failure:
                played = max(0, played - reply.times)
        return self._otherwise


def user_texts(message: dict[str, Any]) -> list[str]:
    """Return the texts of a message of either wire, the last one first, then all joined."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    found = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    texts = [text for text in found if isinstance(text, str)]
    return [*reversed(texts), "\n".join(texts)] if len(texts) > 1 else texts


def parse_directive(text: str) -> list[Reply] | None:
    """Parse the replies of the first valid `[[{…}]]` in the text; None if there is none."""
    for found in _objects(text):
        steps = found.pop("steps", [{}])
        try:
            return [msgspec.convert({**found, **step}, Reply) for step in steps]
        except (msgspec.ValidationError, TypeError) as error:
            LOG.warning("action=parse_directive ignored an invalid directive in a prompt: %s", error)
    return None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for opened in OPEN.finditer(text):
        try:
            found, end = _json.raw_decode(text, opened.end())
        except (ValueError, RecursionError):
            continue
        if CLOSE.match(text, end):
            yield found
