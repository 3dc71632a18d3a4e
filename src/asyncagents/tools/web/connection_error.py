"""Describe why an HTTP request failed."""

import aiohttp


def failure_reason(error: Exception, seconds: float) -> str:
    """Describe a failure without the URL, which may contain a token."""
    match error:
        case TimeoutError():
            return f"it did not answer within {seconds:g} s"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "its certificate cannot be trusted, or it speaks no TLS"
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return "what it answered is not HTTP"
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be looked up"
        case OSError(strerror=str(words)) if words:
            return f"it cannot be reached: {words}"
        case _:
            return "it cannot be reached, or breaks off"
