-- What a run is called once its sandbox is gone, what it was for, and how that ended.
ALTER TABLE runs ADD COLUMN sandbox_name TEXT;
ALTER TABLE runs ADD COLUMN project_name TEXT;
ALTER TABLE runs ADD COLUMN scenario TEXT;
ALTER TABLE runs ADD COLUMN ok INTEGER CHECK (ok IN (0, 1));
UPDATE runs SET
    sandbox_name = (SELECT w.name FROM sandboxes s JOIN workspaces w ON w.id = s.workspace_id WHERE s.id = sandbox_id),
    project_name = (SELECT p.name FROM sandboxes s JOIN workspaces w ON w.id = s.workspace_id
                    JOIN projects p ON p.id = w.project_id WHERE s.id = sandbox_id);
