"""JSON schemas of answers: check the schemas, and answers against them."""

from itertools import islice
from typing import Any

import msgspec

from asyncagents.domain.conversation.message import JsonFormat, OutputFormat, TextFormat
from asyncagents.errors import InvalidInput
from asyncagents.store.body import body

RETRIES = 2
MOST_RETRIES = 20
LARGEST = 256 * 1024
_MOST_COMPLAINTS = 8
_LONGEST = 400
_BACKTRACKS = 100_000
"""Backtracking limit of a pattern: a hostile one ends in an error, not in a hang."""
_ONE_OF = ("anyOf", "allOf", "oneOf", "not", "if")
_WRAPPED = "answer"


def as_format(given: object) -> OutputFormat | None:
    """Convert a format, a schema or a msgspec type; raise `InvalidInput` for anything else."""
    match given:
        case None:
            return None
        case JsonFormat() | TextFormat():
            known: OutputFormat = given
        case dict():
            named = given.get("type") in ("json_schema", "text")
            known = _converted(given) if named else JsonFormat(schema=given)
        case type():
            known = JsonFormat(schema=_schema_of(given))
        case _:
            raise InvalidInput("a format must be a JSON schema, a msgspec type, or a JsonFormat")
    if isinstance(known, JsonFormat):
        _check(known)
    return known


def _converted(given: dict[str, Any]) -> OutputFormat:
    try:
        converted: OutputFormat = msgspec.convert(given, OutputFormat)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"this is not a valid output format: {error}") from error
    return converted


def _schema_of(kind: type) -> dict[str, Any]:
    """Return a type's schema with its fields at the top: some providers follow no reference there."""
    try:
        (schema,), others = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    except TypeError as error:
        raise InvalidInput(f"{kind.__name__} has no JSON schema: {error}") from error
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        schema = others[name]
    return {**schema, "$defs": others} if others else schema


def _check(format: JsonFormat) -> None:
    count = format.retry_count
    if count is not None and count not in range(MOST_RETRIES + 1):
        raise InvalidInput(f"retry_count must be a number from 0 to {MOST_RETRIES}")
    if len(body(format.schema)) > LARGEST:
        raise InvalidInput(f"the schema of an answer has more than {LARGEST // 1024} KiB: make it smaller")
    if not _is_object(format.schema) and _refers_to_itself(format.schema):
        raise InvalidInput(
            "the schema of an answer that is not an object may refer only to its own $defs: "
            "make it an object, or move what it refers to there"
        )
    _validator(format.schema)


def _validator(schema: dict[str, Any]) -> Any:
    """Build a validator that resolves no references over the network or from files."""
    import jsonschema_rs  # start-up: its library is large, and few prompts need it

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=options, retriever=_nowhere)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidInput(f"this is not a valid JSON schema: {_where(error)}") from error


def _nowhere(uri: str) -> Any:
    raise ValueError("external references are not fetched: put the schema under $defs")


def _where(error: Exception) -> str:
    """Return the library's error as one line, with the JSON path it is about."""
    said = getattr(error, "message", None) or str(error)
    path = "/".join(str(step) for step in getattr(error, "instance_path", ()))
    line = " ".join(said.split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return f"at /{path}: {line}" if path else line


def complaint(schema: dict[str, Any], value: Any) -> str | None:
    """Return what violates the schema, a line for each; None: the answer fits."""
    wrong = [_where(error) for error in islice(_validator(schema).iter_errors(value), _MOST_COMPLAINTS)]
    return "\n".join(f"- {each}" for each in wrong) or None


def parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for the arguments of a tool: one that is not an object is wrapped in one."""
    if _is_object(schema):
        return schema
    inside = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema")}
    around = {key: value for key, value in schema.items() if key in ("$defs", "definitions")}
    return {"type": "object", "properties": {_WRAPPED: inside}, "required": [_WRAPPED], **around}


def answer_in(schema: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the answer in the arguments of the tool; None if a wrapped one is missing."""
    return given if _is_object(schema) else given.get(_WRAPPED)


def _is_object(schema: dict[str, Any]) -> bool:
    """Whether a provider accepts the schema as the arguments of a tool."""
    return schema.get("type") == "object" and "$ref" not in schema and not set(_ONE_OF) & schema.keys()


def _refers_to_itself(value: Any) -> bool:
    match value:
        case {"$ref": str(ref)} if ref.startswith("#") and not ref.startswith(("#/$defs/", "#/definitions/")):
            return True
        case dict():
            return any(_refers_to_itself(each) for each in value.values())
        case list() | tuple():
            return any(_refers_to_itself(each) for each in value)
        case _:
            return False
