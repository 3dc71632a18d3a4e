"""Cases that only `make soak` plays."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

DRAWN = os.environ.get("ASYNCAGENTS_EXAMPLES") == "drawn"
"""`make soak` draws new examples of every property, and more of them."""


def some_of(cases: Iterable[Any], played: int) -> list[Any]:
    """Mark all cases but the first ones as played by `make soak` alone."""
    return [
        case if number < played else pytest.param(*_values(case), marks=pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
