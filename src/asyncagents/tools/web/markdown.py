"""Convert a web page to markdown: headings, paragraphs, lists, links and code, without scripts and styles."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

from msgspec import Struct

_SKIPPED_TAGS = {"script", "style", "noscript", "template", "svg", "head", "iframe"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "table", "ul", "ol",
    "form", "figure", "figcaption", "blockquote", "dl", "dd", "dt", "address", "details", "summary",
}  # fmt: skip
_MARKS = {"strong": "**", "b": "**", "em": "_", "i": "_", "code": "`"}
MOST_DEPTH = 64
"""The deepest level at which nested lists are indented."""
MOST_WRITTEN = 2_000_000
"""Most characters written, before blank lines are removed; the rest of the page is left out."""


class Markdown(Struct, frozen=True):
    text: str
    cut: bool


def to_markdown(html: str, *, base: str = "") -> Markdown:
    page = _PageParser(base)
    try:
        page.feed(html)
        page.close()
    except _PageTooLong:
        return Markdown(page.text(), cut=True)
    return Markdown(page.text(), cut=False)


class _PageTooLong(Exception):
    """The page has more than `MOST_WRITTEN` characters."""


class _PageParser(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self._out: list[str] = []
        self._written = 0
        self._skipped_depth = 0
        self._pre_depth = 0
        self._lists: list[int | None] = []
        self._links: list[str] = []

    def _write(self, text: str) -> None:
        self._out.append(text)
        self._written += len(text)
        if self._written > MOST_WRITTEN:
            raise _PageTooLong

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED_TAGS:
            self._skipped_depth += 1
        elif tag in _HEADINGS:
            self._write(f"\n\n{_HEADINGS[tag]} ")
        elif tag in ("ul", "ol"):
            self._write("" if self._lists else "\n")
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
            self._write("[")
        else:
            self._start_inline(tag)

    def _start_inline(self, tag: str) -> None:
        match tag:
            case "pre":
                self._pre_depth += 1
                self._write("\n\n```\n")
            case "li":
                self._write(self._bullet())
            case "br":
                self._write("\n")
            case "hr":
                self._write("\n\n---\n\n")
            case "tr":
                self._write("\n| ")
            case _ if tag in _MARKS and not self._pre_depth:
                self._write(_MARKS[tag])
            case _ if tag in _BLOCKS:
                self._write("\n\n")
            case _:
                pass

    def _bullet(self) -> str:
        depth = "  " * max(0, min(len(self._lists) - 1, MOST_DEPTH))
        if self._lists and (number := self._lists[-1]) is not None:
            self._lists[-1] = number + 1
            return f"\n{depth}{number + 1}. "
        return f"\n{depth}- "

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED_TAGS:
            self._skipped_depth = max(0, self._skipped_depth - 1)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._write("" if self._lists else "\n\n")
        elif tag == "a" and self._links:
            href = self._links.pop()
            self._write(f"]({_join_url(self._base, href)})" if href else "]")
        elif tag == "pre" and self._pre_depth:
            self._pre_depth -= 1
            self._write("\n```\n\n")
        elif tag in ("td", "th"):
            self._write(" | ")
        elif tag in _MARKS and not self._pre_depth:
            self._write(_MARKS[tag])
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._write("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped_depth:
            self._write(data if self._pre_depth else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._out).splitlines())
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _join_url(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return href
