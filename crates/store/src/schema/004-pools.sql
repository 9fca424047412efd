-- Folders of sandboxes for which a pool was asked for; whether it is there is asked of the host.
CREATE TABLE pools (
    folder  TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
