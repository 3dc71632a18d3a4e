"""The code of docs/webhooks.md is run: what it signs is taken, and its answers are those of the table."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asyncagents.server.http.messages import Request
from tests.support.webhook.delivery import UNKNOWN, WaitingService, open_sender, result_body

PAGE = (Path(__file__).resolve().parents[2] / "docs/webhooks.md").read_text(encoding="utf-8")


def code() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    return names


@pytest.mark.spec("P-06")
async def test_webhooks_signed_by_the_page_get_the_statuses_of_its_table(tmp_path: Path) -> None:
    names = code()
    signed, webhook = names["signed"], names["webhook"]
    async with open_sender(tmp_path, WaitingService(check=lambda result: result.output != "v1")) as post:

        async def sent(posted: bytes, **other: Any) -> int:
            told = {"secret": post.secret, "message_id": "msg_1", "body": posted} | other
            status = await webhook(post.stage.runtime, signed(**told), posted)
            assert isinstance(status, int)
            assert f"\n| {status} |" in PAGE
            return status

        (never,) = await post.tools.secrets(UNKNOWN)
        statuses = [
            await sent(post.body, body=b"{}"),
            await sent(b'{"pendingID":"%s"}' % post.id.encode()),
            await sent(result_body(UNKNOWN), secret=never.reveal()),
            await sent(result_body(post.id, "v1")),
            await sent(post.body),
            await sent(post.body, message_id="msg_2"),
            await sent(result_body(post.id, "v3")),
        ]

    assert statuses == [401, 400, 404, 422, 200, 200, 409]


@pytest.mark.spec("P-06")
async def test_the_body_of_the_page_is_accepted(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    async with open_sender(tmp_path) as post:
        body = json.dumps(json.loads(block) | {"pendingID": post.id}).encode()
        answer = await post.send(post.build_signed(body))
        call = await post.tools.get(post.id)

    assert answer.status == 200
    assert json.loads(answer.body) == {"pendingID": post.id, "status": "completed"}
    assert call.result is not None
    assert call.result.title == "Deployed"
    assert call.result.metadata == {"version": 2}


@pytest.mark.spec("P-06")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="the line of the page needs openssl")
async def test_a_signature_by_the_shell_line_of_the_page_is_accepted(tmp_path: Path) -> None:
    (line,) = re.findall(r"\$\((openssl .*)\)\"\n", PAGE)
    async with open_sender(tmp_path / "data") as post:
        (tmp_path / "body.json").write_bytes(post.body)
        made = subprocess.run(  # noqa: ASYNC221  a moment
            ["sh", "-c", line], cwd=tmp_path, env={"SECRET": post.secret, "PATH": "/usr/bin:/bin"},
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        headers = (("X-Webhook-Signature", made.stdout.strip()),)
        answer = await post.send(
            Request(method="POST", path="/async-tool/webhook", headers=headers, body=post.body)
        )

    assert answer.status == 200
