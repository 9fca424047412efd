-- The `hothouse.toml` of the base commit: what it grants counts, what a worktree's copy grants does not.
ALTER TABLE workspaces ADD COLUMN pinned_config TEXT;

-- What is wanted of a sandbox's room. Whether it lives is asked of the host.
CREATE TABLE rooms (
    sandbox_id  INTEGER PRIMARY KEY REFERENCES sandboxes (id) ON DELETE CASCADE,
    wish        TEXT NOT NULL CHECK (wish IN ('starting', 'up', 'stopped')),
    run_id      TEXT NOT NULL REFERENCES runs (id),
    ends        TEXT
) STRICT;
