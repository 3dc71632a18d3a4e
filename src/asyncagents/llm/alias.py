"""Resolve the short model names of Claude Code files: `sonnet` is the newest Sonnet in the catalog."""

import re

from asyncagents.config.config import Config
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.roster import Roster

PROVIDER = "anthropic"
ALIASES = ("sonnet", "opus", "haiku")
_NUMBERS = re.compile(r"\d+")
_LONGEST_VERSION = 3
"""In digits; a longer number is a date."""


def find_alias(config: Config, alias: str) -> ModelRef | None:
    """Return the newest available model of the family; None without a key for its provider."""
    roster = Roster(config)
    if alias not in ALIASES or PROVIDER not in roster.providers_with_key:
        return None
    refs = [choice.ref for choice in roster.models((PROVIDER,)) if choice.available]
    family = [ref for ref in refs if alias in ref.model_id.split("-")]
    return max(family, key=lambda ref: _version(ref.model_id), default=None)


def _version(model_id: str) -> tuple[int, ...]:
    return tuple(int(each) for each in _NUMBERS.findall(model_id) if len(each) <= _LONGEST_VERSION)
