"""Actions on tasks: resume, move to the background, cancel."""

from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.id import SessionId
from asyncagents.domain.served import Stopped
from asyncagents.domain.shape import Shape
from asyncagents.server.body import read
from asyncagents.server.given import KEYED, key, path_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Route, Site


class Resumption(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: str


async def cancel(site: Site, request: Request) -> Answer:
    return shown(Stopped(stopped=await site.runtime.tasks.cancel(_task_id(request), key=key(request))))


async def resume(site: Site, request: Request) -> Answer:
    said = read(request, Resumption)
    return shown(await site.runtime.tasks.resume(_task_id(request), said.prompt, key=key(request)))


async def background(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.tasks.background(_task_id(request)))


async def cancel_group(site: Site, request: Request) -> Answer:
    batch_id = path_id(request, "id", "batch")
    return shown(Stopped(stopped=await site.runtime.tasks.cancel_batch(batch_id, key=key(request))))


def _task_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "task"))


ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/v1/tasks/{id}/cancel",
        handler=cancel,
        access="token",
        summary="Cancel a task and all below it, and notify its parent; once per Idempotency-Key",
        headers=(KEYED,),
        answer=Stopped,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/resume",
        handler=resume,
        access="token",
        summary="Send a task a follow-up; once per Idempotency-Key",
        headers=(KEYED,),
        body=Resumption,
        answer=BackgroundTask,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/background",
        handler=background,
        access="token",
        summary="Move a task to the background",
        answer=BackgroundTask,
        statuses=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/task-groups/{id}/cancel",
        handler=cancel_group,
        access="token",
        summary="Cancel all live tasks of a group; once per Idempotency-Key",
        headers=(KEYED,),
        answer=Stopped,
        statuses=(400, 404, 409),
    ),
)
