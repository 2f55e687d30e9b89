-- The index of words on SQLite. It keeps no text: what is shown is read where it was written.

-- name: make_event_words
-- the words of the journal's lines, by their numbers
CREATE VIRTUAL TABLE IF NOT EXISTS event_words
USING fts5 (words, content = '', columnsize = 0, tokenize = "unicode61 remove_diacritics 0 tokenchars '='")

-- name: make_transcript_words
-- the words of transcripts, by the numbers of their pieces
CREATE VIRTUAL TABLE IF NOT EXISTS transcript_words
USING fts5 (words, content = '', columnsize = 0, tokenize = "unicode61 remove_diacritics 0 tokenchars '='")

-- name: add_event_words
-- the words of one line
INSERT INTO event_words (rowid, words) VALUES (:key, :words)

-- name: add_transcript_words
-- the words of one piece
INSERT INTO transcript_words (rowid, words) VALUES (:key, :words)

-- name: search_events
-- lines with these words, newest first
SELECT event.* FROM event_words JOIN event ON event.seq = event_words.rowid
WHERE event_words MATCH :query AND event_words.rowid < :before ORDER BY event_words.rowid DESC LIMIT :limit

-- name: search_transcripts
-- pieces with these words, newest first
SELECT transcript.* FROM transcript_words JOIN transcript ON transcript.key = transcript_words.rowid
WHERE transcript_words MATCH :query AND transcript.seq < :before ORDER BY transcript_words.rowid DESC LIMIT :limit
