"""Tokens that external agents report: with the answer to a prompt, or with each request to their model."""

from typing import Any

import msgspec
import pytest

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.remote.acp.calls import CallLog
from asyncagents.remote.acp.updates import UpdateReader, used_tokens
from asyncagents.remote.acp.wire import PromptUsage, Update


def usage(**counts: int) -> PromptUsage:
    return msgspec.convert({f"{name}Tokens": number for name, number in counts.items()}, PromptUsage)


@pytest.mark.spec("X-03")
def test_tokens_of_which_the_total_counts_each_kind_are_disjoint() -> None:
    reported = usage(input=10, output=5, thought=2, cachedRead=7, total=24)
    assert used_tokens(reported) == Tokens(
        input=10, output=5, reasoning=2, cache=CacheTokens(read=7, write=0)
    )


@pytest.mark.spec("X-03")
def test_tokens_of_which_the_total_counts_input_and_output_alone_contain_the_others() -> None:
    reported = usage(input=17, output=7, thought=2, cachedRead=7, total=24)
    assert used_tokens(reported) == Tokens(
        input=10, output=5, reasoning=2, cache=CacheTokens(read=7, write=0)
    )


@pytest.mark.spec("X-03")
def test_the_usage_that_chunks_carry_is_added_up() -> None:
    reader = UpdateReader(CallLog())
    for _ in range(2):
        assert list(reader.read(chunk({"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}))) == []
    assert reader.usage == Tokens(input=20, output=10, reasoning=0, cache=CacheTokens(read=0, write=0))


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("meta", [None, {}, {"usage": 3}, {"usage": {"inputTokens": "many"}}])
def test_a_chunk_without_a_readable_usage_changes_no_tokens(meta: Any) -> None:
    reader = UpdateReader(CallLog())
    list(reader.read(chunk(meta["usage"] if meta and "usage" in meta else None, meta=meta)))
    assert reader.usage is None


def chunk(counts: Any, *, meta: Any = None) -> Update:
    """Return an empty text with the tokens of one request to the model."""
    content = {"type": "text", "text": ""}
    carried = meta if meta is not None else {"usage": counts}
    return msgspec.convert(
        {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": carried}, Update
    )
