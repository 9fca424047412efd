-- What the room of a sandbox stands on, where `fork --stack` chose it.
ALTER TABLE workspaces ADD COLUMN stack TEXT;
