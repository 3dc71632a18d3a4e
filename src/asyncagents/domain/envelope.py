"""What another agent wrote is data: between our tags it can neither close one nor forge one."""

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
"""Every tag that we write around the text of another agent or our own words. Code may hold any other tag."""
FILE = "file"
"""The tag of a file that a person attached. It is ours only where a person's words stand."""

# What is there and is not seen: a reader skips it, so it does not make a name another one.
_UNSEEN = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    r"\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\u2800\uffa0\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e0fff"
)
_GAP = rf"[\s{_UNSEEN}]*+"


_DASH = r"[_\-\u2010-\u2015\u2212\ufe58\ufe63\uff0d\uff3f]"


def _spelt(tag: str) -> str:
    letters = (_DASH if letter in "_-" else letter for letter in tag)
    return _GAP.join(letters)


def _name(*families: str) -> str:
    return rf"(?=(?i:{_GAP}(?:[/\\]{_GAP})*+(?:{'|'.join(families)})(?![\w-])))"


def _family(start: str) -> str:
    """Spell the tags that begin alike: where the beginning does not stand, none of them is tried."""
    ends = [tag.removeprefix(start) for tag in TAGS if tag.startswith(start)]
    return rf"{_spelt(start)}{_GAP}(?:{'|'.join(map(_spelt, ends))})"


# `Promise<File>` is code. No tag of ours is written like this, so it is no danger to let it be.
_GENERIC = r"(?<=\w<)File[>,?\[|]"
_STARTS = ("task_", "system-")
"""Each tag of ours begins with one of these."""
_FAMILIES = tuple(map(_family, _STARTS))
_IN_TAG = {False: _name(*_FAMILIES), True: _name(*_FAMILIES, _spelt(FILE))}
_HIDDEN = re.compile(rf"[{_UNSEEN}]+")
_GAPS = bytes((*range(33), 127))
"""Those of the signs that are not seen, and of the spaces, that are ASCII."""
_BEGUN = re.compile(r"<(?=[\s/\\]*+\Z)")  # what follows on the next line could make a tag of it
_STARS = re.compile(r"\*{2,}")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When first used: it would be a fifth of the start of a process, and most never meet a tag."""
    return re.compile(pattern)


def enclosed(text: str, *, files: bool = False) -> str:
    """Escape the tags of ours in a text, and nothing else; `opened` gives the text back.

    With `files`, where a person's words stand, the tag of an attached file counts as ours.
    """
    if ("<" not in text and "lt;" not in text) or not (files or _may_hold_tag(text)):
        return text
    pattern = rf"(?:<(?!{_GENERIC})|&((?:amp;)*+lt;)){_IN_TAG[files]}"
    return _compiled(pattern).sub(lambda hit: f"&amp;{hit[1]}" if hit[1] else "&lt;", text)


def _may_hold_tag(text: str) -> bool:
    """Look for the beginning of a tag without its `<`: most texts have none, and need no closer look."""
    if text.isascii():
        seen = text.encode().translate(None, _GAPS).lower().replace(b"-", b"_")
        return b"task_" in seen or b"system_" in seen
    squeezed = "".join(_HIDDEN.sub("", text).casefold().split())
    return "task" in squeezed or "system" in squeezed


def opened(text: str, *, files: bool = False) -> str:
    """Undo `enclosed` with the same `files`."""
    if "lt;" not in text:
        return text
    return _compiled(rf"&((?:amp;)*+lt;){_IN_TAG[files]}").sub(
        lambda hit: "<" if hit[1] == "lt;" else f"&{hit[1].removeprefix('amp;')}", text
    )


def envelope(tag: str, text: str, **said: str) -> str:
    """The text of another between tags of ours; `said`: what we say of it in the opening one."""
    attributes = "".join(f' {name}="{line(value)}"' for name, value in said.items() if value)
    return f"<{tag}{attributes}>\n{enclosed(text)}\n</{tag}>"


def line(text: str, most: int = 120) -> str:
    """A name or a description on one line, with nothing in it that ends the place it is put in."""
    seen = _STARS.sub("*", " ".join(_HIDDEN.sub("", text).split())).replace('"', "'")
    shown = seen if len(seen) <= most else seen[: most - 1].rstrip() + "…"
    return _BEGUN.sub("&lt;", enclosed(shown, files=True))
