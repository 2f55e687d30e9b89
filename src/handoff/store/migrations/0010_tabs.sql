-- Which tasks had a tab opened by itself: once for each time a task became ready.
CREATE TABLE tab (
    task BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    host TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, fence)
);
