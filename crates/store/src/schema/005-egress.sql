-- Whether a room reaches listed hosts only, whatever the config says.
ALTER TABLE rooms ADD COLUMN restricted INTEGER NOT NULL DEFAULT 0 CHECK (restricted IN (0, 1));

-- Hosts that a human has allowed besides the config: for one workspace, or for a whole project.
CREATE TABLE egress_grants (
    project_id  INTEGER NOT NULL REFERENCES projects (id),
    workspace   TEXT NOT NULL DEFAULT '',
    rule        TEXT NOT NULL,
    granted     TEXT NOT NULL,
    PRIMARY KEY (project_id, workspace, rule)
) STRICT, WITHOUT ROWID;
