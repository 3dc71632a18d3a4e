"""Wraps text of other agents in tags of ours, escaped so that it can neither close nor forge a tag."""

import re
from functools import cache

TAGS = (
    "task_result",
    "task_error",
    "task_metadata",
    "task_message",
    "task_text",
    "task_thinking",
    "task_prompt",
    "task_call",
    "task_input",
    "task_output",
    "task_file",
    "system-reminder",
)
"""Every tag that we write around text of other agents or of our own. Other tags are not escaped."""
FILE = "file"
"""The tag of an attached file. It is escaped only in user text."""

# Invisible characters: a reader skips them, so a tag name with them is still that name.
_INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    r"\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\u2800\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_GAP = rf"[\s{_INVISIBLE}]*+"


_DASH = r"[_\-\u2010-\u2015\u2212\ufe58\ufe63\uff0d\uff3f]"


def _spell_pattern(tag: str) -> str:
    letters = (_DASH if letter in "_-" else letter for letter in tag)
    return _GAP.join(letters)


def _tag_pattern(*families: str) -> str:
    return rf"(?=(?i:{_GAP}(?:[/\\]{_GAP})*+(?:{'|'.join(families)})(?![\w-])))"


def _family_pattern(start: str) -> str:
    """Build a pattern of the tags with this prefix, so that without the prefix none of them is tried."""
    ends = [tag.removeprefix(start) for tag in TAGS if tag.startswith(start)]
    return rf"{_spell_pattern(start)}{_GAP}(?:{'|'.join(map(_spell_pattern, ends))})"


# `Promise<File>` is code; no tag of ours is written like this, so it need not be escaped.
_GENERIC = r"(?<=\w<)File[>,?\[|]"
_STARTS = ("task_", "system-")
"""Prefixes of all tags of ours."""
_FAMILIES = tuple(map(_family_pattern, _STARTS))
_IN_TAG = {False: _tag_pattern(*_FAMILIES), True: _tag_pattern(*_FAMILIES, _spell_pattern(FILE))}
_INVISIBLE_RUN = re.compile(rf"[{_INVISIBLE}]+")
_GAPS = bytes((*range(33), 127))
"""Invisible characters and spaces in ASCII."""
_OPEN_BRACKET = re.compile(r"<(?=[\s/\\]*+\Z)")  # the next line could complete it to a tag
_STARS = re.compile(r"\*{2,}")


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile on first use: it takes a fifth of the start of a process, and most processes never need it."""
    return re.compile(pattern)


def escape_tags(text: str, *, files: bool = False) -> str:
    """Escape the tags of ours in a text, and nothing else; `unescape_tags` is the inverse.

    With `files`, for user text, also escape the tag of an attached file.
    """
    if ("<" not in text and "lt;" not in text) or not (files or _may_hold_tag(text)):
        return text
    pattern = rf"(?:<(?!{_GENERIC})|&((?:amp;)*+lt;)){_IN_TAG[files]}"
    return _compile_pattern(pattern).sub(lambda hit: f"&amp;{hit[1]}" if hit[1] else "&lt;", text)


def _may_hold_tag(text: str) -> bool:
    """Look for a tag prefix without its `<`, as a quick filter: most texts have none."""
    if text.isascii():
        seen = text.encode().translate(None, _GAPS).lower().replace(b"-", b"_")
        return b"task_" in seen or b"system_" in seen
    squeezed = "".join(_INVISIBLE_RUN.sub("", text).casefold().split())
    return "task" in squeezed or "system" in squeezed


def unescape_tags(text: str, *, files: bool = False) -> str:
    """Undo `escape_tags` with the same `files`."""
    if "lt;" not in text:
        return text
    return _compile_pattern(rf"&((?:amp;)*+lt;){_IN_TAG[files]}").sub(
        lambda hit: "<" if hit[1] == "lt;" else f"&{hit[1].removeprefix('amp;')}", text
    )


def envelope(tag: str, text: str, **values: str) -> str:
    """Wrap escaped text in a tag; `values`: attributes of the opening tag."""
    attributes = "".join(f' {name}="{one_line(value)}"' for name, value in values.items() if value)
    return f"<{tag}{attributes}>\n{escape_tags(text)}\n</{tag}>"


def one_line(text: str, most: int = 120) -> str:
    """Put a name or description on one line, without quotes, bold marks or tags that end its context."""
    seen = _STARS.sub("*", " ".join(_INVISIBLE_RUN.sub("", text).split())).replace('"', "'")
    shown = seen if len(seen) <= most else seen[: most - 1].rstrip() + "…"
    return _OPEN_BRACKET.sub("&lt;", escape_tags(shown, files=True))
