"""The version of this library, as sessions, health checks, traces and `/doc` report it."""

VERSION = "0.1.0"
