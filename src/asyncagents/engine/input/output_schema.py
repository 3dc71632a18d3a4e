"""JSON schemas of answers: check the schemas, and answers against them."""

from itertools import islice
from typing import Any

import msgspec

from asyncagents.domain.body import encode_body
from asyncagents.domain.conversation.message import JsonFormat, MessageFormat, TextFormat
from asyncagents.domain.self_contained import inline_references
from asyncagents.errors import InvalidInput

DEFAULT_RETRIES = 2
MAX_RETRIES = 20
MAX_SCHEMA_BYTES = 256 * 1024
_MAX_VIOLATIONS = 8
_MAX_VIOLATION_CHARS = 400
_MAX_BACKTRACKS = 100_000
"""Backtracking limit of a pattern: a hostile one ends in an error, not in a hang."""
_COMBINATORS = ("anyOf", "allOf", "oneOf", "not", "if")
_WRAPPER_KEY = "answer"


def parse_format(given: object) -> MessageFormat | None:
    """Convert a format, a schema or a msgspec type; raise `InvalidInput` for anything else."""
    match given:
        case None:
            return None
        case JsonFormat() | TextFormat():
            known: MessageFormat = given
        case dict():
            named = given.get("type") in ("json_schema", "text")
            known = _convert_format(given) if named else JsonFormat(schema=given)
        case type():
            known = JsonFormat(schema=_schema_of(given))
        case _:
            raise InvalidInput("a format must be a JSON schema, a msgspec type, or a JsonFormat")
    if isinstance(known, JsonFormat):
        _check_format(known)
    return known


def _convert_format(given: dict[str, Any]) -> MessageFormat:
    try:
        converted: MessageFormat = msgspec.convert(given, MessageFormat)
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


def _check_format(format: JsonFormat) -> None:
    count = format.retry_count
    if count is not None and count not in range(MAX_RETRIES + 1):
        raise InvalidInput(f"retry_count must be a number from 0 to {MAX_RETRIES}")
    if len(encode_body(format.schema)) > MAX_SCHEMA_BYTES:
        raise InvalidInput(
            f"the schema of an answer has more than {MAX_SCHEMA_BYTES // 1024} KiB: make it smaller"
        )
    if not _is_object(format.schema) and _has_local_ref(format.schema):
        raise InvalidInput(
            "the schema of an answer that is not an object may refer only to its own $defs: "
            "make it an object, or move what it refers to there"
        )
    _build_validator(format.schema)


def _build_validator(schema: dict[str, Any]) -> Any:
    """Build a validator that resolves no references over the network or from files."""
    import jsonschema_rs  # start-up: its library is large, and few prompts need it

    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=options, retriever=_refuse_fetch)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise InvalidInput(f"this is not a valid JSON schema: {_error_line(error)}") from error


def _refuse_fetch(uri: str) -> Any:
    raise ValueError("external references are not fetched: put the schema under $defs")


def _error_line(error: Exception) -> str:
    """Return the library's error as one line, with the JSON path it is about."""
    message = getattr(error, "message", None) or str(error)
    path = "/".join(str(step) for step in getattr(error, "instance_path", ()))
    line = " ".join(message.split())
    line = line if len(line) <= _MAX_VIOLATION_CHARS else f"{line[:_MAX_VIOLATION_CHARS]}…"
    return f"at /{path}: {line}" if path else line


def find_violations(schema: dict[str, Any], value: Any) -> str | None:
    """Return what violates the schema, a line for each; None: the answer fits."""
    wrong = [
        _error_line(error) for error in islice(_build_validator(schema).iter_errors(value), _MAX_VIOLATIONS)
    ]
    return "\n".join(f"- {each}" for each in wrong) or None


def tool_parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for the arguments of a tool: one that is not an object is wrapped in one.

    It has no references. Where that loosens it, the answer is still checked against the schema itself.
    """
    return inline_references(_wrap(schema), recursive=True)


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    if _is_object(schema):
        return schema
    inside = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema")}
    around = {key: value for key, value in schema.items() if key in ("$defs", "definitions")}
    return {"type": "object", "properties": {_WRAPPER_KEY: inside}, "required": [_WRAPPER_KEY], **around}


def extract_answer(schema: dict[str, Any], given: dict[str, Any]) -> Any:
    """Return the answer in the arguments of the tool; None if a wrapped one is missing."""
    return given if _is_object(schema) else given.get(_WRAPPER_KEY)


def _is_object(schema: dict[str, Any]) -> bool:
    """Whether a provider accepts the schema as the arguments of a tool."""
    return schema.get("type") == "object" and "$ref" not in schema and not set(_COMBINATORS) & schema.keys()


def _has_local_ref(value: Any) -> bool:
    match value:
        case {"$ref": str(ref)} if ref.startswith("#") and not ref.startswith(("#/$defs/", "#/definitions/")):
            return True
        case dict():
            return any(_has_local_ref(each) for each in value.values())
        case list() | tuple():
            return any(_has_local_ref(each) for each in value)
        case _:
            return False
