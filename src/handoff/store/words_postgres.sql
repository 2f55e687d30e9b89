-- The index of words on Postgres. It keeps no text: what is shown is read where it was written.

-- name: allow_bitmaps
-- an index of words can be read in no other way; for this transaction alone
SET LOCAL enable_bitmapscan = on

-- name: add_event_words
-- the words of one line
INSERT INTO event_words (seq, words) VALUES (:key, CAST(:words AS tsvector))

-- name: add_transcript_words
-- the words of one piece
INSERT INTO transcript_words (key, words) VALUES (:key, CAST(:words AS tsvector))

-- name: search_events
-- lines with these words, newest first
SELECT event.* FROM event_words JOIN event ON event.seq = event_words.seq
WHERE event_words.words @@ CAST(:query AS tsquery) AND event_words.seq < :before ORDER BY event_words.seq DESC LIMIT :limit

-- name: search_transcripts
-- pieces with these words, newest first
SELECT transcript.* FROM transcript_words JOIN transcript ON transcript.key = transcript_words.key
WHERE transcript_words.words @@ CAST(:query AS tsquery) AND transcript.seq < :before
ORDER BY transcript_words.key DESC LIMIT :limit
