"""Leave for a page of the web, and what an answer "always" covers of it."""

import re
from typing import Any

from asyncagents.engine.tool import Ask

_SITE = re.compile(r"https?://[a-z0-9-]+(\.[a-z0-9-]+)*(:[0-9]+)?(?=/)")


def page_ask(url: str, metadata: dict[str, Any], *, permission: str = "webfetch") -> Ask:
    """Ask for a page; "always" covers its scheme, host and port, of an unusual address nothing else."""
    site = _SITE.match(url)
    if site is not None and "\\" not in url:
        return Ask(permission, (url,), (f"{site.group()}/*",), metadata, narrow=True)
    shown = url.isprintable()
    return Ask(permission, (url,), (url,) if shown else (), metadata, exact=shown, narrow=True)
