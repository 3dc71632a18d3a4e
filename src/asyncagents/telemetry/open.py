"""Choose the observer; OpenTelemetry is imported only if telemetry is enabled."""

from asyncagents.config.config import Config, TelemetryConfig
from asyncagents.domain.clock import Clock
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.errors import ConfigError

MISSING = (
    "telemetry is on and OpenTelemetry is not installed: pip install 'asyncagents[telemetry]', or set "
    "telemetry.enabled to false"
)


def choose_observer(given: bool | TelemetryConfig | None, config: Config | None, clock: Clock) -> Observer:
    """Return the observer by `given`, or else by the config; raises `ConfigError` without OpenTelemetry."""
    if given is None:
        given = config.telemetry if config is not None else False
    wanted = TelemetryConfig(enabled=given) if isinstance(given, bool) else given
    if not wanted.enabled:
        return NOOP_OBSERVER
    try:
        from asyncagents.telemetry.tracing import OtelObserver  # optional extra
    except ImportError as error:
        raise ConfigError(MISSING) from error
    return OtelObserver(clock, content=wanted.content)
