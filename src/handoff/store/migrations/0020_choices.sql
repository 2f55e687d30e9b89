-- What a person may choose from: a JSON list where any text answers, and empty where only yes and no do.
ALTER TABLE gate ADD COLUMN choices TEXT NOT NULL DEFAULT '';
