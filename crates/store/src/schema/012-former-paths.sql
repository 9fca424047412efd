-- Where the files of a sandbox were in the sandboxes that it was forked from, as a JSON list of paths.
ALTER TABLE workspaces ADD COLUMN former_paths TEXT NOT NULL DEFAULT '[]';
