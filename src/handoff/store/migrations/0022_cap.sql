-- Which cap on money a question is about, by its setting; the answer is by how much it was raised.
ALTER TABLE gate ADD COLUMN cap TEXT NOT NULL DEFAULT '';
CREATE INDEX gate_cap ON gate (cap, key) WHERE cap <> '';
