"""Strict decoding of untrusted JSON: ambiguous or unstorable values raise `InvalidInput`."""

import json
from collections import Counter
from collections.abc import Iterator
from math import isfinite
from typing import Any, NoReturn

from asyncagents.domain.text import replace_surrogates
from asyncagents.errors import InvalidInput

DEPTH = 100
"""Max nesting depth, the same as for stored JSON."""

_INTEGER_LIMIT = 2**63
_MOST_CHARACTERS = len(str(-_INTEGER_LIMIT))
_TOO_DEEP = f"the body nests more than {DEPTH} levels deep; flatten it"


def read_json(raw: bytes) -> Any:
    """Decode one JSON value that is unambiguous and can be stored. Raises `InvalidInput`."""
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_build_object,
            parse_constant=_refuse_constant,
            parse_float=_float,
            parse_int=_integer,
        )
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: byte {error.start} is invalid") from None
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {str(error)[:200]}") from None
    if "\\u" in text or text.count("[") + text.count("{") > DEPTH:  # else there is nothing to check
        _check(value)
    return value


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InvalidInput(f"the key {twice[:80]!r} occurs twice in one object; write it once")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidInput(f"{name} is not a JSON number; write null or a text")


def _float(text: str) -> float:
    if not isfinite(number := float(text)):
        raise InvalidInput(f"the number {text[:40]} is too large; write it as a text")
    return number


def _integer(text: str) -> int:
    if len(text) > _MOST_CHARACTERS or not -_INTEGER_LIMIT <= (number := int(text)) < _INTEGER_LIMIT:
        raise InvalidInput(f"the number {text[:40]} is too large; write it as a text")
    return number


def _check(value: Any) -> None:
    """Check depth and texts layer by layer, without recursion, as the depth is not known yet."""
    layer, depth = [value], 0
    while layer:
        if depth > DEPTH:
            raise InvalidInput(_TOO_DEEP)
        for text in (item for item in layer if isinstance(item, str)):
            _check_text(text)
        layer = [inner for item in layer for inner in _children(item)]
        depth += 1


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _check_text(text: str) -> None:
    if "\0" in text:
        raise InvalidInput("the body has a text with a zero character in it (\\u0000); leave it out")
    if replace_surrogates(text) != text:
        raise InvalidInput("the body has a text with an unpaired surrogate in it; leave it out")
