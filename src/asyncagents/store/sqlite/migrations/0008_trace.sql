-- min_reader: 7
-- Where the turn of a session stands in a trace, as a W3C traceparent; NULL: nobody traces it. Its next run goes on there,
-- in whichever process.
ALTER TABLE session ADD COLUMN trace TEXT;
