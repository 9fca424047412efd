-- A repository is known by its git common dir: worktrees of one repository share it.
CREATE TABLE repositories (
    id          INTEGER PRIMARY KEY,
    common_dir  TEXT NOT NULL UNIQUE,
    root        TEXT NOT NULL
) STRICT;

-- A project is a repository; two of the same name get distinct labels in URLs.
CREATE TABLE projects (
    id             INTEGER PRIMARY KEY,
    repository_id  INTEGER NOT NULL UNIQUE REFERENCES repositories (id),
    name           TEXT NOT NULL,
    label          TEXT NOT NULL UNIQUE
) STRICT;

-- The durable half of a sandbox.
CREATE TABLE workspaces (
    id           INTEGER PRIMARY KEY,
    project_id   INTEGER NOT NULL REFERENCES projects (id),
    name         TEXT NOT NULL,
    worktree     TEXT NOT NULL UNIQUE,
    branch       TEXT NOT NULL,
    base         TEXT NOT NULL,
    base_commit  TEXT NOT NULL,
    tree_driver  TEXT NOT NULL,
    task         TEXT,
    created      TEXT NOT NULL,
    UNIQUE (project_id, name)
) STRICT;

-- The disposable half. `phase`: 'making' until its fork is done, then 'made'; 'deleting' from the
-- moment a deletion is acknowledged.
CREATE TABLE sandboxes (
    id            INTEGER PRIMARY KEY,
    workspace_id  INTEGER NOT NULL UNIQUE REFERENCES workspaces (id) ON DELETE CASCADE,
    public_id     TEXT NOT NULL,
    phase         TEXT NOT NULL CHECK (phase IN ('making', 'made', 'deleting'))
) STRICT;

-- One period of a sandbox being up. Its artifacts outlive the sandbox.
CREATE TABLE runs (
    id          TEXT PRIMARY KEY,
    sandbox_id  INTEGER REFERENCES sandboxes (id) ON DELETE SET NULL,
    profile     TEXT NOT NULL,
    artifacts   TEXT NOT NULL,
    started     TEXT NOT NULL,
    ended       TEXT
) STRICT;

-- A port of the host, kept for one app of one workspace until released.
CREATE TABLE port_reservations (
    port        INTEGER PRIMARY KEY CHECK (port BETWEEN 1 AND 65535),
    project_id  INTEGER NOT NULL REFERENCES projects (id),
    workspace   TEXT NOT NULL,
    app         TEXT NOT NULL,
    reserved    TEXT NOT NULL,
    UNIQUE (project_id, workspace, app)
) STRICT;

-- An operation of several steps. `state`: 'open', 'done', 'undone' (failed and taken back),
-- 'stuck' (failed, to be tried again).
CREATE TABLE plans (
    id         INTEGER PRIMARY KEY,
    operation  TEXT NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    subject    TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('open', 'done', 'undone', 'stuck')),
    failure    TEXT,
    begun      TEXT NOT NULL,
    ended      TEXT
) STRICT;

CREATE INDEX plans_by_state ON plans (state);

-- The sandboxes that a plan makes or removes.
CREATE TABLE plan_subjects (
    plan_id     INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    sandbox_id  INTEGER NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    PRIMARY KEY (plan_id, sandbox_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE plan_steps (
    plan_id   INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    position  INTEGER NOT NULL,
    body      TEXT NOT NULL,
    done      INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1)),
    PRIMARY KEY (plan_id, position)
) STRICT, WITHOUT ROWID;
