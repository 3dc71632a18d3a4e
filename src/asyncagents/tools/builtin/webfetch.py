"""`webfetch`: fetch a web page as markdown, text or HTML; the rules apply to every redirect."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct

from asyncagents.domain.agent.permission import WEBFETCH, WEBFETCH_LOCAL, Action, LineageRules
from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import CallId
from asyncagents.engine.tool import Ask, Tool, ToolContext
from asyncagents.engine.workplace.agents import default_rules
from asyncagents.errors import ToolError
from asyncagents.tools.builtin.describe import load_description
from asyncagents.tools.file.read_log import Recent
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.web.markdown import Markdown
from asyncagents.tools.web.markdown_process import read_as_markdown
from asyncagents.tools.web.url import WebAddress, parse_address
from asyncagents.tools.web.web import Web, WebPage, WebTarget

MOST_CHARACTERS = 50_000
REDIRECTS = 5
SECONDS = 90.0
"""Time limit of a page with its redirects, without the conversion to markdown."""
MOST_PLANNED = 4_000
_DEFAULT_RULES = LineageRules.from_rules(default_rules())


class WebFetchArgs(Struct, frozen=True):
    url: Annotated[str, Meta(description="The whole address, with https://.", min_length=1, max_length=4000)]
    format: Annotated[Literal["markdown", "text", "html"], Meta(description="How you want to read it.")] = (
        "markdown"
    )


class Verdict(Struct, frozen=True):
    """What the rules say of an address, and its target, if the name was looked up."""

    permission: str
    action: Action
    target: WebTarget | None = None


def webfetch(web: Web, processes: Processes) -> Tool[WebFetchArgs]:
    planned: Recent[CallId, WebTarget] = Recent(MOST_PLANNED)

    async def plan(args: WebFetchArgs, context: ToolContext) -> tuple[Ask, ...]:
        address = parse_address(args.url)
        verdict = await judge_address(web, address, context.rules or _DEFAULT_RULES)
        if verdict.target is not None:
            planned.put(context.call_id, verdict.target)
        return (_ask(address, args, verdict),)

    async def run(args: WebFetchArgs, context: ToolContext) -> Completed:
        address, rules = parse_address(args.url), context.rules or _DEFAULT_RULES
        try:
            async with asyncio.timeout(SECONDS):
                target = planned.get(context.call_id)
                if target is None or target.address != address:
                    target = await _resolve_late(web, address, rules)
                page = await _fetch(web, target, rules)
        except TimeoutError as error:
            raise ToolError(f"{address.url} did not come within {SECONDS:g} s.") from error
        text = await _read(web, processes, page, args.format)
        note = f"\n\n[cut after {len(text.text):,} characters]" if text.cut else ""
        return Completed(text.text + note, page.url, {"url": page.url, "truncated": text.cut})

    return Tool(
        "webfetch",
        WebFetchArgs,
        run,
        plan=plan,
        effect="none",
        timeout=130,
        description=load_description("webfetch"),
    )


async def judge_address(web: Web, address: WebAddress, rules: LineageRules) -> Verdict:
    """Judge an address by the rules for its target.

    A name is looked up only if it may be fetched unasked, because the lookup reveals it to the name's owner.
    """
    action = rules.decide(WEBFETCH, address.spellings)
    if action == "deny" or (action == "ask" and address.needs_lookup):
        return Verdict(WEBFETCH, action)
    target = await web.resolve(address)
    if not target.is_local:
        return Verdict(WEBFETCH, action, target)
    return Verdict(WEBFETCH_LOCAL, rules.decide(WEBFETCH_LOCAL, address.spellings), target)


async def _resolve_late(web: Web, address: WebAddress, rules: LineageRules) -> WebTarget:
    """Look up a name that a person has approved; raise `ToolError` if it is local and that is not allowed."""
    target = await web.resolve(address)
    if target.is_local and rules.decide(WEBFETCH_LOCAL, address.spellings) != "allow":
        found = parse_address(f"http://{_in_url(target.addresses[0])}:{address.port}/")
        raise ToolError(
            f"{address.url} leads to {', '.join(target.addresses)}, which is not a public address. "
            f"If the page is wanted, call webfetch with the address itself, such as {found.url}: "
            f"that asks for {WEBFETCH_LOCAL}."
        )
    return target


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address


async def _fetch(web: Web, target: WebTarget, rules: LineageRules) -> WebPage:
    for _ in range(REDIRECTS + 1):
        answer = await web.get(target)
        if isinstance(answer, WebPage):
            return answer
        target = await _follow(web, target, answer, rules)
    raise ToolError(f"{target.url} is not fetched: there were more than {REDIRECTS} redirects before it.")


async def _follow(web: Web, before: WebTarget, address: WebAddress, rules: LineageRules) -> WebTarget:
    """Return the target of a redirect if it may be fetched unasked; else raise `ToolError`."""
    verdict = await judge_address(web, address, rules)
    what = f"{before.url} redirects to {address.url}"
    if verdict.target is not None and verdict.target.is_local and not before.is_local:
        raise ToolError(f"{what}, which is not a public address: a page of the web cannot lead there.")
    if verdict.action == "deny":
        raise ToolError(f"{what}, which the rules do not allow.")
    if verdict.action == "ask" or verdict.target is None:
        raise ToolError(f"{what}. If you want that page, call webfetch with this address: it is asked for.")
    return verdict.target


def _ask(address: WebAddress, args: WebFetchArgs, verdict: Verdict) -> Ask:
    metadata = {"url": address.url, "format": args.format}
    if verdict.target is not None and verdict.target.is_local:
        metadata["addresses"] = ", ".join(sorted(verdict.target.addresses))
    return page_ask(address, metadata, verdict.permission)


def page_ask(address: WebAddress, metadata: dict[str, str], permission: str = WEBFETCH) -> Ask:
    """Ask for a page; "always" covers its scheme, host and port, in both spellings of the host."""
    sites = tuple(f"{'/'.join(each.split('/', 3)[:3])}/*" for each in address.spellings)
    if any(letter in site[:-1] for site in sites for letter in "*?\\"):
        return Ask(permission, address.spellings, metadata=metadata)
    return Ask(permission, address.spellings, sites, metadata, narrow=True)


async def _read(web: Web, processes: Processes, page: WebPage, wanted: str) -> Markdown:
    if wanted == "html" or "html" not in page.content_type:
        return Markdown(page.text[:MOST_CHARACTERS], cut=page.cut or len(page.text) > MOST_CHARACTERS)
    async with web.parsing:
        read = await read_as_markdown(processes, page.text, base=page.url, most=MOST_CHARACTERS)
    return Markdown(read.text, cut=read.cut or page.cut)
