-- What sessions have cost so far, as their clients told it.
CREATE TABLE expense (
    session TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    agent TEXT NOT NULL,
    money DOUBLE PRECISION NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX expense_at ON expense (at);
