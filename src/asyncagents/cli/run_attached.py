"""Runs a session in a server, and explains what to do when the connection is lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from asyncagents.cli.attached import Attached
from asyncagents.cli.exit import USAGE, Complaint, first_error
from asyncagents.cli.run_choice import Addressee, named_model
from asyncagents.cli.run_order import Order
from asyncagents.cli.run_result import Where
from asyncagents.cli.run_session import Job, supervised
from asyncagents.cli.run_signal import Signals
from asyncagents.cli.screen import Screen
from asyncagents.cli.server_find import TOKEN_VARIABLE, There
from asyncagents.client.client import Client, open_client
from asyncagents.client.link import Lost
from asyncagents.domain.id import SessionId
from asyncagents.errors import NotFound, RequestError, Unauthorized, Unavailable

PATIENCE_SECONDS = 10.0
"""Time to reconnect before the server counts as lost."""


async def work_there(order: Order, there: There, data: Path, screen: Screen) -> int:
    """Run in the server; return the exit code. Model and agent are checked by the server, not here."""
    chosen = Addressee(order.agent, named_model(order.model))
    where = Where(there.url, far=not there.own)
    with Signals() as signals:
        if where.far:
            await _reach(there)
        if order.format == "text":
            screen.note(f"working in the server at {there.url}")
        async with _connected(there, data) as client:
            host = Attached(client, screen, own=there.own, placed=order.placed)
            job = Job(host, order, lambda session: chosen, screen=screen, where=where)
            try:
                return await supervised(job, signals)
            except Exception as error:
                screen.end_line()
                raise _told(first_error(error), where, host.session_id) from error


@asynccontextmanager
async def _connected(there: There, data: Path) -> AsyncIterator[Client]:
    """Connect by data directory if the server is our own, so that it is found again at a new address."""
    if there.own:
        async with open_client(data=data, patience=PATIENCE_SECONDS) as client:
            yield client
    else:
        token = there.token.reveal() if there.token is not None else None
        async with open_client(there.url, token=token, patience=PATIENCE_SECONDS) as client:
            yield client


async def _reach(there: There) -> None:
    """Fail at once, without reconnecting, if no server answers at the given address."""
    try:
        async with open_client(there.url, patience=0) as client:
            await client.health()
    except Unauthorized as error:  # for example a host name that the server does not accept
        raise Complaint(f"the server at {there.url} refuses: {error}", code=USAGE) from error
    except (Unavailable, RequestError) as error:
        raise Complaint(
            f"no asyncagents server answers at {there.url}: {error}",
            hint="`asyncagents serve` starts one, and prints its address",
        ) from error


def _told(error: BaseException, where: Where, session_id: SessionId | None) -> BaseException:
    match error:
        case Unavailable() if not isinstance(error, Lost):
            again = f"`{where.again(session_id)}` continues what was accepted" if session_id else ""
            return Complaint(f"the server at {where.url} refuses: {error}", hint=again)
        case Unavailable() if session_id is not None:
            return Complaint(
                f"the server at {where.url} is lost: {error}",
                hint=f"what was accepted is stored; `{where.again(session_id)}` continues it",
            )
        case Unavailable():
            hint = "`asyncagents sessions` shows whether the prompt was stored"
            return Complaint(f"the server at {where.url} is lost: {error}", hint="" if where.far else hint)
        case NotFound() if where.far:
            return Complaint(f"{error} at {where.url}", code=USAGE)
        case Unauthorized():
            return Complaint(
                f"the server at {where.url} refuses: {error}",
                hint=f"give its token as --token, or in {TOKEN_VARIABLE}",
                code=USAGE,
            )
        case _:
            return error
