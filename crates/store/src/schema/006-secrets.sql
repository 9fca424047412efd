-- Where the values of secrets come from. The values themselves are never here.
CREATE TABLE secrets (
    -- The git folder of the project it is for; empty for every project.
    project  TEXT NOT NULL,
    name     TEXT NOT NULL,
    -- `keyring`, `file`, `env:NAME` or `command:…`.
    source   TEXT NOT NULL,
    -- The hosts to which it may go at most, as a JSON list; an empty one leaves that to the config.
    hosts    TEXT NOT NULL,
    set_at   TEXT NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;
