"""Secrets in the command or the URL of a program, hidden before it is stored."""

import pytest

from asyncagents.config.file.hide import command_secrets, hide_in_command, hide_in_url

SECRET = "s3cretOfMine"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("npx", "-y", "@scope/server-files", "/home/ann/project"), None),
        (("python", "server.py", "--port", "3000", "--verbose=true"), None),
        (("server", "/tmp/pytest-of-ann/pytest-0/test_a_long_name_of_a_folder_0"), None),
        (("server", "--api-key", SECRET), ("server", "--api-key", "…")),
        (("server", f"--token={SECRET}"), ("server", "--token=…")),
        (("server", "-H", f"Authorization: {SECRET}"), ("server", "-H", "Authorization: …")),
        (
            ("docker", "run", "-e", f"GITHUB_TOKEN={SECRET}", "image"),
            ("docker", "run", "-e", "GITHUB_TOKEN=…", "image"),
        ),
        (("server", f"postgres://ann:{SECRET}@host/db"), ("server", "…")),
        (("server", "sk-proj-0123456789"), ("server", "…")),
        (("server", "a1b2c3d4e5f6a7b8c9d0e1f2"), ("server", "…")),
        (("server", "0b6a1f0e-93c1-4a1c-8b3f-7d0c6a5e4f3d"), ("server", "…")),
        (("server", "https://example.org/s/a1b2c3d4e5f6a7b8c9d0/mcp"), ("server", "…")),
    ],
)
def test_a_command_shows_no_secret(words: tuple[str, ...], shown: tuple[str, ...] | None) -> None:
    assert hide_in_command(words) == (shown or words)
    assert bool(command_secrets(words)) == (shown is not None)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:3000/mcp", None),
        ("https://example.org/team/mcp", None),
        (f"https://example.org/mcp?key={SECRET}", "https://example.org/…"),
        (f"https://example.org/mcp#{SECRET}", "https://example.org/…"),
        (f"https://ann:{SECRET}@example.org:8443/mcp", "https://example.org:8443/…"),
        ("https://example.org/api/mcp/s/a1b2c3d4e5f6a7b8c9d0e1f2/mcp", "https://example.org/…"),
        (f"http://[{SECRET}", "…"),
    ],
)
def test_a_url_shows_no_secret(url: str, shown: str | None) -> None:
    assert hide_in_url(url) == (shown or url)
