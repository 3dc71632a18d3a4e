-- min_reader: 2
-- Each connection's last transaction that wrote: the row is there if and only if the transaction is. Numbers of transactions alone
-- do not tell: after a crash the server gives those anew of which nothing had reached the disk, and somebody else's commit
-- would pass for ours.
CREATE TABLE mark (
  slot BIGINT PRIMARY KEY,
  token BIGINT NOT NULL,
  xid BIGINT NOT NULL,
  day DATE NOT NULL DEFAULT CURRENT_DATE
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO mark (slot, token, xid) VALUES (0, 0, pg_current_xact_id()::text::bigint);

-- Up to there every transaction has ended, and none of these numbers is given again, as one of them or a later one is on the
-- disk: a reader who has come that far misses nothing.
CREATE FUNCTION durable() RETURNS BIGINT LANGUAGE sql STABLE AS $$
  SELECT LEAST(settled() - 1, (SELECT MAX(xid) FROM mark))
$$;
