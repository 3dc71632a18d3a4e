"""An address of the web has one spelling, and rules are judged by that."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from asyncagents.errors import ToolError
from asyncagents.tools.web.url import join_address, parse_address

SAME = {
    "http://example.org/x": (
        "HTTP://example.org/x",
        "hTTp://EXAMPLE.org/x",
        "http://example.org:80/x",
        "http://example.org:080/x",
        "http://example.org:/x",
        "http://example.org./x",
        " http://example.org/x\n",
        "http://example.org/x#there",
        "http://example.org/x?",
        "http://example.org/x?#",
        "http://example.org/./x",
        "http://example.org/a/../x",
        "http://example.org/%2e/x",
        "http://example.org/a/%2E%2e/x",
        "http://example.org/../../x",
        "http://example.org/%78",
        "http://ｅxample.org/x",
        "http://example。org/x",
        "http://EXAMPLE.ORG.:80/a/../%78?#y",
    ),
    "http://example.org/": ("http://example.org", "http://example.org?", "http://example.org#a", "HTTP://EXAMPLE.ORG:80"),
    "http://example.org/?x": ("http://example.org?x", "http://example.org/?x#y", "http://example.org:80?x"),
    "https://example.org/": ("https://example.org:443", "https://example.org.:0443/."),
    "https://example.org:80/": ("https://example.org:80",),
    "http://xn--bcher-kva.example/": ("http://bücher.example", "http://BÜCHER.example/", "http://xn--BCHER-kva.example"),
    "http://192.0.2.1/": ("http://192.0.2.1:80", "http://①⑨②.0.2.1/", "http://192。0。2。1"),
    "http://[2001:db8::1]/": ("http://[2001:DB8:0:0::1]", "http://[2001:db8:0:0:0:0:0:1]:80/"),
    "http://example.org/a%20b/%C3%A9?q=%2F%20z": ("http://example.org/a b/é?q=%2f z", "http://example.org/a%20b/%c3%a9?q=%2F%20z"),
    "http://example.org/%25zz": ("http://example.org/%zz",),
    "http://example.org/a//b": ("http://example.org/a//b",),
    "http://example.org/a/": ("http://example.org/a/.", "http://example.org/a/b/.."),
}  # fmt: skip


@pytest.mark.spec("A-03")
@pytest.mark.parametrize(("one", "other"), [(one, each) for one, others in SAME.items() for each in others])
def test_all_spellings_of_an_address_give_the_same_url(one: str, other: str) -> None:
    assert parse_address(other).url == one
    assert parse_address(one).url == one


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://example.org/x", "begin it with https"),
        ("file:///etc/passwd", "begin it with https"),
        ("example.org", "begin it with https"),
        ("http://", "begin it with https"),
        ("http:///x", "begin it with https"),
        ("http://user:pw@example.org/", "user name or password"),
        ("http://@example.org/", "user name or password"),
        ("http://a b/", "is no host"),
        ("http://a..b/", "is no host"),
        ("http://-/", "is no host"),
        ("http://*/", "is no host"),
        ("http://[/", "is no host"),
        ("http://[::1", "is no host"),
        ("http://a:b/", "is no host"),
        ("http://a:８０/", "is no host"),
        ("http://a%2eb/", "is no host"),
        (f"http://{'a' * 300}/", "is no host"),
        ("http://a:0/", "no port"),
        ("http://a:65536/", "no port"),
        ("http://a:99999999999999999999/", "no port"),
        ("http://a/\\b", "cannot be seen"),
        ("http://a/b\nc", "cannot be seen"),
        ("http://a/\ud800", "cannot be seen"),
        (f"http://a/{'é' * 3000}", "more than 8,000"),
    ],
)
def test_an_invalid_web_address_is_refused_with_a_reason(url: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        parse_address(url)


@given(
    st.builds(
        "{}://{}{}".format,
        st.sampled_from(["http", "https", "HTTP"]),
        st.sampled_from(["a.test", "A.test.:80", "[::1]:443", "bücher.test", "1.2.3.4:443"])
        | st.text(max_size=12),
        st.text(alphabet="/.%2eEfF?#&=éa\\ +", max_size=20).map(lambda text: f"/{text}"),
    )
)
@example("http://a.test/%2e%2E/%25%32%65/..")
def test_parsing_a_parsed_address_does_not_change_it(url: str) -> None:
    try:
        address = parse_address(url)
    except ToolError:
        return
    assert parse_address(address.url) == address
    assert address.url.isascii()
    assert "/../" not in address.url.partition("?")[0]


def test_an_international_host_is_also_spelled_in_unicode() -> None:
    address = parse_address("https://bücher.example:8443/x")
    assert address.spellings == ("https://xn--bcher-kva.example:8443/x", "https://bücher.example:8443/x")
    assert parse_address("https://example.org/xn--bcher-kva").spellings == (
        "https://example.org/xn--bcher-kva",
    )


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("/next?x#y", "http://a.test:81/next?x"),
        ("next", "http://a.test:81/dir/next"),
        ("../up", "http://a.test:81/up"),
        ("//B.test/x", "http://b.test/x"),
        ("https://c.test", "https://c.test/"),
        ("", "http://a.test:81/dir/page"),
    ],
)
def test_a_relative_address_is_joined_with_that_of_its_page(target: str, url: str) -> None:
    assert join_address(parse_address("http://a.test:81/dir/page"), target).url == url


@pytest.mark.parametrize(
    "target", ["javascript:alert(1)", "file:///etc/passwd", "http://[x", "data:text/html,x"]
)
def test_a_link_to_another_scheme_is_refused(target: str) -> None:
    with pytest.raises(ToolError):
        join_address(parse_address("http://a.test/"), target)
