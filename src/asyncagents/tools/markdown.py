"""A web page as markdown: headings, paragraphs, lists, links and code; nothing that only a browser needs."""

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SILENT = {"script", "style", "noscript", "template", "svg", "head", "iframe"}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = {
    "p", "div", "section", "article", "main", "header", "footer", "nav", "aside", "table", "ul", "ol",
    "form", "figure", "figcaption", "blockquote", "dl", "dd", "dt", "address", "details", "summary",
}  # fmt: skip
_MARKS = {"strong": "**", "b": "**", "em": "_", "i": "_", "code": "`"}


def to_markdown(html: str, *, base: str = "") -> str:
    page = _Page(base)
    page.feed(html)
    page.close()
    return page.text()


class _Page(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base = base
        self._out: list[str] = []
        self._silent = 0
        self._pre = 0
        self._lists: list[int | None] = []
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _HEADINGS:
            self._out.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag in ("ul", "ol"):
            self._out.append("" if self._lists else "\n")
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
            self._out.append("[")
        else:
            self._start_small(tag)

    def _start_small(self, tag: str) -> None:
        match tag:
            case "pre":
                self._pre += 1
                self._out.append("\n\n```\n")
            case "li":
                self._out.append(self._bullet())
            case "br":
                self._out.append("\n")
            case "hr":
                self._out.append("\n\n---\n\n")
            case "tr":
                self._out.append("\n| ")
            case _ if tag in _MARKS and not self._pre:
                self._out.append(_MARKS[tag])
            case _ if tag in _BLOCKS:
                self._out.append("\n\n")
            case _:
                pass

    def _bullet(self) -> str:
        depth = "  " * max(0, len(self._lists) - 1)
        if self._lists and (number := self._lists[-1]) is not None:
            self._lists[-1] = number + 1
            return f"\n{depth}{number + 1}. "
        return f"\n{depth}- "

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self._out.append("" if self._lists else "\n\n")
        elif tag == "a" and self._links:
            href = self._links.pop()
            self._out.append(f"]({_joined(self._base, href)})" if href else "]")
        elif tag == "pre" and self._pre:
            self._pre -= 1
            self._out.append("\n```\n\n")
        elif tag in ("td", "th"):
            self._out.append(" | ")
        elif tag in _MARKS and not self._pre:
            self._out.append(_MARKS[tag])
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._out.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._out.append(data if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = (line.rstrip() for line in "".join(self._out).splitlines())
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _joined(base: str, href: str) -> str:
    try:
        return urljoin(base, href)
    except ValueError:
        return href
