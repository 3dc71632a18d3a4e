"""Bodies that report a result, from senders of every kind."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.incoming_result import (
    MOST_BYTES_BESIDE_OUTPUT,
    IncomingResult,
    read_incoming_result,
    read_pending_id,
)
from asyncagents.domain.id import CallId
from asyncagents.errors import InvalidInput

CALL = CallId("tool_1")


def result(**fields: Any) -> bytes:
    return json.dumps({"pendingID": CALL, "result": fields}).encode()


@pytest.mark.spec("P-03", "P-06")
@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (result(output="done"), Completed("done")),
        (result(output=""), Completed("")),
        (
            result(title="Deployed", output="v2", metadata={"a": [1, 2.5, None, True, {"b": "é😀"}]}),
            Completed("v2", "Deployed", {"a": [1, 2.5, None, True, {"b": "é😀"}]}),
        ),
        (result(title=None, output="v2", metadata=None), Completed("v2")),
        (b'{"error":"no route","pendingID":"tool_1"}', Failed("no route")),
        (b'{"error":"no route","result":null,"pendingID":"tool_1"}', Failed("no route")),
        (b' {"type":"job.done", "timestamp":"t", "pendingID":"tool_1", "error":"x"}\n', Failed("x")),
        (b'{"pendingI\\u0044":"tool_1","error":"\\ud83d\\ude00 \\\\u0000"}', Failed("😀 \\u0000")),
        (result(output="x" * 3 * MOST_BYTES_BESIDE_OUTPUT), Completed("x" * 3 * MOST_BYTES_BESIDE_OUTPUT)),
        (result(output="o", metadata={"n": -(2**63)}), Completed("o", "", {"n": -(2**63)})),
    ],
)
def test_a_result_or_an_error_is_read(raw: bytes, read: Completed | Failed) -> None:
    assert read_incoming_result(raw) == IncomingResult(CALL, read)
    assert read_pending_id(raw) == CALL


DEEP = b'{"pendingID":"tool_1","result":{"output":"","metadata":{"a":' + b"[" * 200 + b"]" * 200 + b"}}}"
ENDLESS = b'{"pendingID":"tool_1","result":' + b'{"a":' * 100_000
MANY = json.dumps(
    {"pendingID": CALL, "result": {"output": "", "metadata": {"a": [1] * MOST_BYTES_BESIDE_OUTPUT}}}
).encode()

MALFORMED = [
    (b"", "not JSON"),
    (b"   ", "not JSON"),
    (b"pendingID=tool_1", "not JSON"),
    (b'{"pendingID":"tool_1","error":"x"', "not JSON"),
    (b'{"pendingID":"tool_1","error":"x"} {}', "not JSON"),
    (b"\xef\xbb\xbf{}", "not JSON"),
    (b'{"pendingID":"tool_1","error":"a\nb"}', "not JSON"),
    (b'{"pendingID":"tool_1","error":"\xff"}', "not UTF-8"),
    ('{"pendingID":"tool_1","error":"x"}'.encode("utf-16"), "not UTF-8"),
    (b'{"pendingID":"tool_1","error":"\xed\xa0\x80"}', "not UTF-8"),
    (b"null", "object, not null"),
    (b'["pendingID","tool_1"]', "object, not a list"),
    (b'"tool_1"', "object, not a text"),
    (b"7", "object, not a number"),
    (b"{}", "either"),
    (b'{"pendingID":"tool_1"}', "either"),
    (b'{"pendingID":"tool_1","result":null,"error":null}', "either"),
    (b'{"pendingID":"tool_1","result":{"output":"x"},"error":"x"}', "either"),
    (b'{"error":"x"}', "names no call"),
    (b'{"pendingID":null,"error":"x"}', "names no call"),
    (b'{"pendingID":"","error":"x"}', "names no call"),
    (b'{"pendingID":7,"error":"x"}', "names no call"),
    (b'{"pendingID":["tool_1"],"error":"x"}', "names no call"),
    (b'{"pendingid":"tool_1","error":"x"}', "names no call"),
    (b'{"pendingID":"tool_1\\n","error":"x"}', "names no call"),
    (b'{"pendingID":"' + b"t" * 201 + b'","error":"x"}', "names no call"),
    (b'{"pendingID":"tool_1\\u0000","error":"x"}', "zero character"),
    (b'{"pendingID":"tool_1","error":""}', "what went wrong"),
    (b'{"pendingID":"tool_1","error":"  "}', "what went wrong"),
    (b'{"pendingID":"tool_1","error":7}', "what went wrong"),
    (b'{"pendingID":"tool_1","error":{"message":"x"}}', "what went wrong"),
    (b'{"pendingID":"tool_1","result":"done"}', "object with an"),
    (b'{"pendingID":"tool_1","result":["done"]}', "object with an"),
    (b'{"pendingID":"tool_1","result":false}', "not true or false"),
    (result(), "result.output"),
    (result(output=None), "result.output"),
    (result(output={"a": 1}), "not an object"),
    (result(output="x", title=1), "result.title"),
    (result(output="x", metadata=[1]), "result.metadata"),
    (result(output="x", ouput="y"), "no field 'ouput'"),
    (result(output="x", **{"": "y"}), "no field ''"),
    (b'{"pendingID":"tool_2","pendingID":"tool_1","error":"x"}', "'pendingID' occurs twice"),
    (b'{"pendingID":"tool_1","result":{"output":"a","output":"b"}}', "'output' occurs twice"),
    (b'{"pendingID":"tool_1","error":"x","error":"x"}', "'error' occurs twice"),
    (result(output="x", metadata={"a": float("nan")}), "NaN is not a JSON number"),
    (result(output="x", metadata={"a": float("-inf")}), "-Infinity is not a JSON number"),
    (b'{"pendingID":"tool_1","result":{"output":"x","metadata":{"a":1e999}}}', "too large"),
    (result(output="x", metadata={"a": 2**63}), "too large"),
    (b'{"pendingID":"tool_1","result":{"output":"x","metadata":{"a":' + b"9" * 9000 + b"}}}", "too large"),
    (b'{"pendingID":"tool_1","error":"\\ud800"}', "unpaired surrogate"),
    (b'{"pendingID":"tool_1","result":{"output":"x","metadata":{"\\udfff":1}}}', "unpaired surrogate"),
    (b'{"pendingID":"tool_1","error":"a\\u0000b"}', "zero character"),
    (result(output="x", metadata={"a": ["\0"]}), "zero character"),
    (DEEP, "100 levels"),
    (ENDLESS, "100 levels"),
    (ENDLESS * 3, "not the JSON"),
    (MANY, "more than 1 MiB"),
    (b'{"pendingID":"tool_1","error":[' + b"1," * MOST_BYTES_BESIDE_OUTPUT + b"1]}", "more than 1 MiB"),
    (
        b'{"pendingID":"tool_1","result":{"output":"' + b"x" * MOST_BYTES_BESIDE_OUTPUT + b'"},"result":{}}',
        "more than 1 MiB",
    ),
]


@pytest.mark.spec("P-03", "P-05", "P-06")
@pytest.mark.parametrize(("raw", "why"), MALFORMED, ids=[str(number) for number in range(len(MALFORMED))])
def test_a_malformed_body_is_refused_with_a_short_reason(raw: bytes, why: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_incoming_result(raw)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 300


FIELDS = st.sampled_from(["pendingID", "result", "error", "output", "title", "metadata"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for read in (read_pending_id, read_incoming_result):
        try:
            read(raw)
        except InvalidInput:
            continue


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60), st.integers(0, 60))
def test_both_readers_of_a_corrupted_body_find_the_same_call(junk: bytes, at: int) -> None:
    whole = result(output="done", metadata={"a": 1})
    spoilt = whole[:at] + junk + whole[at:]
    try:
        read = read_incoming_result(spoilt)
    except InvalidInput:
        return
    assert read_pending_id(spoilt) == read.pending_id
