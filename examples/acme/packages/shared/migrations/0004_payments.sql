-- One row per webhook event that was acted upon. Written in the transaction
-- that acts, so that a replayed event finds it and does nothing.
CREATE TABLE payment_events (
  id          text PRIMARY KEY,
  type        text NOT NULL,
  order_id    bigint REFERENCES orders (id),
  received_at timestamptz NOT NULL DEFAULT now()
);

-- Book-keeping. Entries are held for a moment, so that a refund that follows
-- at once can still cancel the pair before either is posted.
CREATE TABLE ledger_entries (
  id           bigserial PRIMARY KEY,
  order_id     bigint NOT NULL REFERENCES orders (id),
  kind         text NOT NULL CHECK (kind IN ('payment', 'refund')),
  amount_cents integer NOT NULL,
  tax_cents    integer NOT NULL DEFAULT 0,
  held_until   timestamptz NOT NULL DEFAULT now() + interval '3 seconds',
  posted_at    timestamptz,
  created_at   timestamptz NOT NULL DEFAULT now(),
  UNIQUE (order_id, kind)
);

CREATE TABLE settlements (
  day            date PRIMARY KEY,
  payments       integer NOT NULL,
  gross_cents    bigint NOT NULL,
  refunds        integer NOT NULL,
  refunded_cents bigint NOT NULL,
  tax_cents      bigint NOT NULL,
  net_cents      bigint NOT NULL,
  released       integer NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL DEFAULT now()
);
