"""How often one sender may come: a bucket of goes for each address."""

import pytest

from asyncagents.server.http.messages import Request
from asyncagents.server.rate_limit import MOST_SENDERS, RateLimit
from asyncagents.server.v1.async_tool import routes
from asyncagents.server.v1.tasks import routes as task_routes
from asyncagents.testing.clock import FakeClock

ROUTE = {f"{route.method} {route.path}": route for route in (*routes, *task_routes)}
WEBHOOK, RESULT = ROUTE["POST /async-tool/webhook"], ROUTE["POST /async-tool/result"]


class Door:
    """Two goes a second, three at once."""

    def __init__(self) -> None:
        self.clock = FakeClock(1_000_000)
        self.rates = RateLimit(self.clock, a_second=2.0, at_once=3)

    def goes(self, times: int, client: str = "10.0.0.1") -> int:
        """How many of so many get through."""
        return sum(self.refusal(client) is None for _ in range(times))

    def refusal(self, client: str = "10.0.0.1") -> tuple[int, dict[str, str]] | None:
        answer = self.rates.check(WEBHOOK, Request(method="POST", path="/", client=client))
        return None if answer is None else (answer.status, dict(answer.headers))

    def wait(self, milliseconds: int) -> None:
        self.clock.set(self.clock.now() + milliseconds)


@pytest.mark.spec("P-10")
def test_too_many_requests_are_refused_with_a_retry_after_header() -> None:
    door = Door()

    assert door.goes(10) == 3
    assert door.refusal() == (429, {"retry-after": "1"})


@pytest.mark.spec("P-10")
@pytest.mark.parametrize(
    ("milliseconds", "goes"), [(0, 0), (499, 0), (500, 1), (1000, 2), (1499, 2), (60_000, 3)]
)
def test_allowed_requests_return_with_time_up_to_the_first_number(milliseconds: int, goes: int) -> None:
    door = Door()
    door.goes(10)
    door.wait(milliseconds)

    assert door.goes(10) == goes


def test_refused_requests_do_not_delay_the_next_allowed_one() -> None:
    door = Door()
    door.goes(10)

    got = []
    for _ in range(6):
        door.wait(250)
        got.append(door.goes(1))

    assert got == [0, 1, 0, 1, 0, 1]


def test_retry_after_is_the_time_until_a_request_is_allowed() -> None:
    door = Door()
    door.rates = RateLimit(door.clock, a_second=0.1, at_once=1)
    door.goes(1)

    assert door.refusal() == (429, {"retry-after": "10"})
    door.wait(9_999)
    assert door.refusal() == (429, {"retry-after": "1"})
    door.wait(1)
    assert door.refusal() is None


@pytest.mark.spec("P-10")
def test_each_address_has_a_limit_of_its_own() -> None:
    door = Door()
    door.goes(10, "10.0.0.1")

    assert door.goes(10, "10.0.0.2") == 3
    assert door.goes(10, "") == 3


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:0:ffff::", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::1", "::2", False),
    ],
)
def test_addresses_of_one_ipv6_network_share_a_limit(one: str, other: str, *, same: bool) -> None:
    """A network of IPv6 is given to one."""
    door = Door()
    door.goes(10, one)

    assert door.goes(10, other) == (0 if same else 3)


def test_a_clock_that_goes_back_neither_blocks_nor_resets_the_limit() -> None:
    door = Door()
    door.goes(10)
    door.wait(-3_600_000)

    assert door.goes(10) == 0
    door.wait(1000)
    assert door.goes(10) == 2
    door.wait(3_600_000)
    assert door.goes(10) == 3


def test_the_number_of_remembered_addresses_is_bounded() -> None:
    door = Door()
    for number in range(3 * MOST_SENDERS):
        door.goes(1, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(door.rates._buckets) == MOST_SENDERS


def test_an_address_that_keeps_sending_requests_stays_limited() -> None:
    door = Door()
    door.goes(10)
    for number in range(2 * MOST_SENDERS):
        door.goes(1, f"10.9.{number >> 8}.{number & 255}")
        if number % 1000 == 0:
            assert door.goes(1) == 0


@pytest.mark.parametrize(
    ("method", "path", "limited"),
    [
        ("POST", "/async-tool/result", True),
        ("POST", "/async-tool/error", True),
        ("POST", "/async-tool/webhook", True),
        ("DELETE", "/async-tool/pending/{id}", True),
        ("GET", "/async-tool/pending", False),
        ("GET", "/v1/health", False),
    ],
)
def test_routes_that_deliver_results_are_limited_and_reading_ones_are_not(
    method: str, path: str, *, limited: bool
) -> None:
    door, request = Door(), Request(method=method, path=path, client="10.0.0.1")
    answers = [door.rates.check(ROUTE[f"{method} {path}"], request) for _ in range(10)]

    assert any(answers) == limited


def test_webhooks_do_not_use_up_the_limit_of_token_requests_of_an_address() -> None:
    """Behind a proxy, and on this machine, all have one address; anybody may send what is not signed."""
    door = Door()
    door.goes(10)

    result = Request(method="POST", path="/", client="10.0.0.1")

    assert door.refusal() is not None
    assert [door.rates.check(RESULT, result) is None for _ in range(4)] == [True, True, True, False]
