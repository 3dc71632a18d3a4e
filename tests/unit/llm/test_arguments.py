"""Arguments of a call, as models write them."""

from typing import Any

import pytest

from asyncagents.llm.wire.json_repair import read_arguments


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  \n", {}),
        ("null", {}),
        ("{}", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "two\nlines\there"}', {"a": "two\nlines\there"}),
        ('{"a": "half \\ud83d"}', {"a": "half ?"}),
        ('{"a": "half \ud83d"}', {"a": "half ?"}),
        ('""', None),
        ("[1]", None),
        ("7", None),
        ("true", None),
        ('{"a": ', None),
        ('{"a": 1} and more', None),
        ("{" * 100_000, None),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, None),
    ],
)
def test_arguments_are_a_json_object_or_the_call_cannot_run(
    text: str, arguments: dict[str, Any] | None
) -> None:
    assert read_arguments(text) == arguments
