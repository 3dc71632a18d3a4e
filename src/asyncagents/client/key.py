"""Unique idempotency keys."""

from secrets import token_hex


def fresh_key() -> str:
    return f"client-{token_hex(16)}"
