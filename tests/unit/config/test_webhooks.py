"""Who may be told by webhook: configured with care, and never by a project that is not trusted."""

from pathlib import Path

import pytest

from asyncagents.config.config import WebhooksConfig
from asyncagents.config.file.untrusted import filter_untrusted
from asyncagents.errors import ConfigError
from tests.support.environment import ConfigDesk


def test_hosts_are_names_and_addresses(desk: ConfigDesk) -> None:
    hosts = ["hooks.internal", "10.1.2.3", "fd00::5", "[fd00::6]", "LOCALHOST"]
    desk.write("opencode.json", {"async_tools": {"webhooks": {"enabled": True, "hosts": hosts}}})
    assert desk.load().config.async_tools.webhooks == WebhooksConfig(enabled=True, hosts=tuple(hosts))


@pytest.mark.spec("P-12")
@pytest.mark.parametrize(
    "host",
    [
        "https://hooks.internal",
        "hooks.internal:80",
        "[fd00::5]:80",
        "*.internal",
        "*",
        "10.0.0.0/8",
        "",
        " ",
        "user@hooks.internal",
        "fe80::1%eth0",
        "hooks internal",
    ],
)
def test_an_invalid_webhook_host_is_refused(desk: ConfigDesk, host: str) -> None:
    desk.write("opencode.json", {"async_tools": {"webhooks": {"enabled": True, "hosts": [host]}}})
    with pytest.raises(ConfigError, match=r"webhooks\.hosts"):
        desk.load()


@pytest.mark.spec("P-12")
def test_webhook_settings_of_an_untrusted_project_are_left_out(tmp_path: Path) -> None:
    data = {"async_tools": {"webhooks": {"enabled": True, "hosts": ["169.254.169.254"]}}}
    sifted = filter_untrusted(data, tmp_path, tmp_path)
    assert sifted.kept == {}
    assert [path for path, _ in sifted.left_out] == [("async_tools", "webhooks")]
