-- What makes identifiers in a run's records unlike those of another run. Not in the run's folder: whoever has that may guess.
ALTER TABLE runs ADD COLUMN salt BLOB;

-- Heads of the chains of timelines, kept where whoever can write a run's folder cannot change them.
CREATE TABLE anchors (
    run_id  TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq     INTEGER NOT NULL,
    hash    TEXT NOT NULL,
    ended   INTEGER NOT NULL CHECK (ended IN (0, 1)),
    PRIMARY KEY (run_id, seq)
) STRICT;
