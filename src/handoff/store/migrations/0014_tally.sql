-- What happened so far, counted: it follows the journal, so that a figure never falls when old lines are put away.
CREATE TABLE tally (
    project TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    number BIGINT NOT NULL,
    total DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (project, name, label)
);
