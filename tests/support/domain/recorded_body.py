"""Bodies recorded from a server whose clients we serve; prose was replaced, the structure kept."""

import json
from typing import Any

from tests.support.path import FIXTURES

_HOME = FIXTURES / "wire"


def read_body(name: str) -> Any:
    return json.loads((_HOME / f"{name}.json").read_text())


CONVERSATIONS = [
    entry for file in sorted(_HOME.glob("messages_*.json")) for entry in json.loads(file.read_text())
]
