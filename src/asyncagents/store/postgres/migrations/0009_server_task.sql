-- min_reader: 9
-- Older programs must not write here: they would ask nobody how a task of an MCP server goes on, and lose its id.
-- When the server of a call's task is to be asked or told something; NULL: never.
ALTER TABLE call ADD COLUMN poll_at BIGINT;
CREATE INDEX call_poll ON call (poll_at) WHERE poll_at IS NOT NULL;
