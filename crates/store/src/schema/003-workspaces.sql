-- The folder of sandboxes, beside which trees, layers and data are kept; without it, the worktree's parent.
ALTER TABLE workspaces ADD COLUMN sandboxes TEXT;
-- The agent's tip that was imported last, and the branch that holds it since the user moved the sandbox's own.
ALTER TABLE workspaces ADD COLUMN imported TEXT;
ALTER TABLE workspaces ADD COLUMN agent_branch TEXT;

-- All trees of a sandbox at one instant. `phase`: 'making', then 'made'; 'forgetting' while it is removed.
CREATE TABLE snapshots (
    id          INTEGER PRIMARY KEY,
    sandbox_id  INTEGER NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    plan_id     INTEGER REFERENCES plans (id) ON DELETE SET NULL,
    label       TEXT NOT NULL,
    tip         TEXT NOT NULL,
    created     TEXT NOT NULL,
    phase       TEXT NOT NULL CHECK (phase IN ('making', 'made', 'forgetting')),
    UNIQUE (sandbox_id, label)
) STRICT;
