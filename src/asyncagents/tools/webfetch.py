"""The webfetch tool: a page of the public web, as a model can read it."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from asyncagents.domain.call import Completed
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.tools.described import described
from asyncagents.tools.markdown import to_markdown
from asyncagents.tools.web import Page, Web
from asyncagents.tools.web_ask import page_ask

MOST_CHARACTERS = 50_000


class WebFetch(Struct, frozen=True):
    url: Annotated[str, Meta(description="The whole address, with https://.", min_length=1, max_length=4000)]
    format: Annotated[Literal["markdown", "text", "html"], Meta(description="How you want to read it.")] = (
        "markdown"
    )


def webfetch(web: Web) -> Tool[WebFetch]:
    async def run(args: WebFetch, context: ToolContext) -> Completed:
        page = await web.fetch(args.url)
        text = _read(page, args.format)
        cut = page.cut or len(text) > MOST_CHARACTERS
        note = f"\n\n[cut after {MOST_CHARACTERS:,} characters]" if cut else ""
        return Completed(text[:MOST_CHARACTERS] + note, page.url, {"url": page.url, "truncated": cut})

    return Tool(
        "webfetch", WebFetch, run, plan=_plan, effect="none", timeout=130, description=described("webfetch")
    )


async def _plan(args: WebFetch, context: ToolContext) -> tuple[Ask, ...]:
    return (page_ask(args.url, {"url": args.url, "format": args.format}),)


def _read(page: Page, wanted: str) -> str:
    if wanted == "html" or "html" not in page.kind:
        return page.text
    return to_markdown(page.text, base=page.url)
