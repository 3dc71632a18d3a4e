"""What is hidden of an endpoint, and what may be seen."""

import pytest

from asyncagents.config.secret import Secret
from asyncagents.llm.http.redact import redact_body, redact_text, redact_url, secrets_of


def values(*, key: str | None = None, url: str = "https://a.test", **headers: str) -> set[str]:
    found = secrets_of(Secret(key) if key is not None else None, tuple(headers.values()), url)
    return {secret.reveal() for secret in found}


def test_a_short_key_is_hidden_without_the_blanks_around_it() -> None:
    assert values(key=" abc\n") == {"abc"}
    assert values(key=" \n") == set()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("Bearer sk-0123456789", {"sk-0123456789"}),
        ('Token token="abcdefgh"', {"abcdefgh"}),
        ("id=7; session=abcdefghij", {"abcdefghij"}),
        ("blue", set()),
    ],
)
def test_of_a_header_each_long_word_is_hidden_too(header: str, words: set[str]) -> None:
    assert values(authorization=header) == words | ({header} if len(header) >= 8 else set())


def test_of_an_address_the_user_the_password_and_the_query_are_hidden_but_no_version() -> None:
    url = "https://somebody:pass%2Fword@a.test/v1?api-version=2024-02-01&key=ab%2Fcdefgh&n=7"
    assert values(url=url) == {
        "somebody",
        "pass%2Fword",
        "pass/word",
        "pass%252Fword",
        "ab/cdefgh",
        "ab%2Fcdefgh",
    }
    assert redact_url(url) == "https://a.test/v1"
    assert values(url="http://[nonsense") == set()


def test_a_secret_inside_another_does_not_keep_the_rest_of_it_visible() -> None:
    secrets = secrets_of(Secret("abcdefgh"), ("abcdefgh-ijklmnop",), "https://a.test")
    assert redact_text("it is abcdefgh-ijklmnop!", secrets) == "it is ***!"
    assert redact_body(b"it is abcdefgh-ijklmnop!", secrets) == b"it is ***!"
