"""Arguments as a model might write them: what fits a schema, what nearly does, and anything that is JSON."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hypothesis import strategies as st

Json: TypeAlias = Any
Anything: TypeAlias = st.SearchStrategy[Json]

# Also half surrogates and NUL: a provider's JSON may have both.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
WORDS = st.sampled_from(
    [
        *("a.txt", "src", ".", "..", "/", "~", "", " ", "\0", "\ud800", "\udcff.txt", "a\nb", "*", "**/*.py"),
        *("[", "(", "(?P<", "{a,b", "\\", "x" * 5000, "../" * 400, "echo hi", "echo $(", "a.txt/x", "%s{0}"),
        *("http://127.0.0.1:9/", "https://[::1", "http://\ud800/", "file:///etc/passwd", "ftp://a", "://"),
        *("*** Begin Patch\n*** End Patch", "*** Begin Patch", "*** Begin Patch\n*** Add File: \ud800\n+x"),
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-hello\n+\udfff\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: \0\n@@\n-hello\n+x\n*** End Patch",
    ]
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40]),
    st.floats(allow_nan=True),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS, TEXTS)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
DEEP = st.integers(1, 600).map(lambda depth: _nested(depth))


def _nested(depth: int) -> Json:
    value: Json = "x"
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}
    return value


def fitting_values(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Anything:
    """Values that the schema allows, the odd ones among them."""
    if "$ref" in schema:
        return fitting_values(others[schema["$ref"].rpartition("/")[2]], others)
    if "anyOf" in schema:
        return st.one_of([fitting_values(each, others) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return _KINDS[schema["type"]](schema, others)


def _string(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Anything:
    most, least = schema.get("maxLength", 10_000), schema.get("minLength", 0)
    return (WORDS | TEXTS).filter(lambda text: least <= len(text) <= most)


def _integer(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Anything:
    least, most = schema.get("minimum", -9), schema.get("maximum", 2**62)
    return st.integers(least, most) | st.integers(least, min(most, least + 9))


def _array(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Anything:
    least, most = schema.get("minItems", 0), min(schema.get("maxItems", 4), 4)
    return st.lists(fitting_values(schema["items"], others), min_size=least, max_size=most)


def _object(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Anything:
    fields = {name: fitting_values(each, others) for name, each in schema["properties"].items()}
    required = {name: value for name, value in fields.items() if name in schema["required"]}
    return st.fixed_dictionaries(
        required, optional={name: value for name, value in fields.items() if name not in required}
    )


_KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Anything]] = {
    "string": _string,
    "integer": _integer,
    "array": _array,
    "object": _object,
    "boolean": lambda schema, others: st.booleans(),
    "null": lambda schema, others: st.none(),
}


@st.composite
def nearly_fitting_values(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Json]:
    """What fits, with one thing wrong."""
    value = dict(draw(fitting_values(schema, schema.get("$defs", {}))))
    name = draw(st.sampled_from([*schema["properties"], "unknown"]))
    match draw(st.sampled_from(["drop", "other", "deep", "more"])):
        case "drop":
            value.pop(name, None)
        case "other":
            value[name] = draw(JSON)
        case "deep":
            value[name] = draw(DEEP)
        case _:
            value[draw(TEXTS)] = draw(JSON)
    return value


def arguments(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Json]]:
    return st.one_of(
        fitting_values(schema, schema.get("$defs", {})),
        nearly_fitting_values(schema),
        st.dictionaries(st.sampled_from([*schema["properties"], "x"]) | TEXTS, JSON, max_size=4),
    )
