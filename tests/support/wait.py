"""How long a test waits."""

PATIENCE = 20.0
"""So long a test waits for what must come; a healthy run never does."""
