-- What agents ask their user for, and the answers.
CREATE TABLE asks (
    id          TEXT NOT NULL PRIMARY KEY,
    sandbox_id  INTEGER NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    asked       TEXT NOT NULL,
    text        TEXT NOT NULL,
    host        TEXT,
    secret      TEXT,
    wanted      TEXT,
    state       TEXT NOT NULL CHECK (state IN ('open', 'allowed', 'denied')),
    answer      TEXT,
    answered    TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX asks_of_sandbox ON asks (sandbox_id, state);
