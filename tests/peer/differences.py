"""Where our answers differ from OpenCode's, each with its reason; docs/opencode.md tells people."""

from tests.peer.compare import Known

KNOWN: tuple[Known, ...] = ()
