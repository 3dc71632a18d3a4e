"""Keys that nobody else makes: what is sent twice under one counts once."""

from secrets import token_hex


def fresh_key() -> str:
    return f"client-{token_hex(16)}"
