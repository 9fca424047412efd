-- Since when a room sleeps because nobody used it. It is woken by the next use, and its run goes on.
ALTER TABLE rooms ADD COLUMN slept TEXT;
