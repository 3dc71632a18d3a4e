"""How a connection is spoken: HTTP as uvicorn reads it."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Protocol(HttpToolsProtocol):
    """A connection of this server."""
