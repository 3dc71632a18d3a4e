"""What docs/context.md says is so: its block is accepted, and its figures are those of the code."""

import re
from pathlib import Path

import pytest

from asyncagents.config.file import jsonc
from asyncagents.config.file.shape import CompactionEntry
from asyncagents.domain.window import IMAGE_TOKENS, OUTPUT_TOKEN_MAX
from asyncagents.engine.model_input import PROTECTED_TOKENS, PRUNED_TOKENS
from asyncagents.engine.step.compaction import MAX_PROMPT_CHARS, MAX_TAIL_TOKENS, MIN_TAIL_TOKENS
from asyncagents.engine.step.digest import MAX_OUTPUT_CHARS, MAX_TEXT_CHARS
from tests.support.environment import ConfigDesk

PAGE = (Path(__file__).parents[3] / "docs" / "context.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```jsonc\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.spec("S-09", "S-10", "S-11")
def test_the_block_of_the_page_has_every_key_and_is_accepted(desk: ConfigDesk) -> None:
    desk.write("asyncagents.jsonc", EXAMPLE)
    loaded = desk.load()
    written = jsonc.parse(EXAMPLE, "example")
    assert loaded.warnings == ()
    assert set(written["compaction"]) == set(CompactionEntry.__struct_encode_fields__)
    kept = {name: getattr(loaded.config.compaction, name) for name in written["compaction"]}
    assert kept == written["compaction"]
    assert loaded.config.agent["compaction"].model is not None


@pytest.mark.parametrize(
    "figure",
    [
        f"{OUTPUT_TOKEN_MAX:,} tokens at most",
        f"{IMAGE_TOKENS:,} for an image",
        f"({MAX_PROMPT_CHARS:,} characters)",
        f"at least {MIN_TAIL_TOKENS:,} tokens and {MAX_TAIL_TOKENS:,} at most",
        f"of a message up to {MAX_TEXT_CHARS:,} characters, of a tool's output up to {MAX_OUTPUT_CHARS:,}",
        f"the newest {PROTECTED_TOKENS:,} tokens of output",
        f"makes room for {PRUNED_TOKENS:,} at least",
    ],
)
def test_the_figures_of_the_page_are_those_of_the_code(figure: str) -> None:
    assert figure in " ".join(PAGE.split())
