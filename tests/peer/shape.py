"""The shape of an answer: keys, types, and those texts that clients decide by.

`python -m tests.peer record` writes the shapes of our answers to the published SDK into `shapes.json`. They
were compared with OpenCode's own answers at that time (`make soak` compares them anew); `make test` sees a
change of a shape without OpenCode's server.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("shapes.json")
TELLING = ("type", "status", "role", "tool", "finish", "reason", "mode", "action", "name")
"""Their values are part of the shape."""


def shape_of(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {name: shape_of(each, name) for name, each in sorted(value.items())}
        case list():
            shapes = (shape_of(each, key) for each in value)
            return sorted({json.dumps(each, sort_keys=True) for each in shapes})
        case str() | int() if key in TELLING and not isinstance(value, bool):
            return value
        case _:
            return "number" if isinstance(value, float) else type(value).__name__


def digest_shapes(answers: dict[str, Any]) -> dict[str, str]:
    """One line for each answer: its status, and a digest of its shape.

    A stream's sign of life comes or does not come, as long as the run takes.
    """
    told = {name: each for name, each in sorted(answers.items()) if "server.heartbeat" not in name}
    return {name: f"{each.get('status', '-')} {_digest(each)}" for name, each in told.items()}


def _digest(answer: Any) -> str:
    return hashlib.sha256(json.dumps(shape_of(answer), sort_keys=True).encode()).hexdigest()[:12]
