CREATE TABLE coupons (
  code       text PRIMARY KEY CHECK (code = upper(code)),
  kind       text NOT NULL CHECK (kind IN ('percent', 'fixed')),
  value      integer NOT NULL CHECK (value > 0),
  terms      jsonb,
  active     boolean NOT NULL DEFAULT true,
  expires_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE SEQUENCE order_numbers START 10001;

CREATE TABLE orders (
  id                bigserial PRIMARY KEY,
  number            text NOT NULL UNIQUE DEFAULT 'A-' || nextval('order_numbers'),
  access_key        text NOT NULL,
  user_id           bigint REFERENCES users (id),
  email             text NOT NULL,
  visitor           text,
  status            text NOT NULL DEFAULT 'payment_pending'
                    CHECK (status IN ('payment_pending', 'paid', 'shipped', 'refunded', 'cancelled')),
  currency          text NOT NULL DEFAULT 'usd',
  subtotal_cents    integer NOT NULL CHECK (subtotal_cents >= 0),
  discount_cents    integer NOT NULL DEFAULT 0 CHECK (discount_cents >= 0),
  shipping_cents    integer NOT NULL DEFAULT 0 CHECK (shipping_cents >= 0),
  tax_cents         integer NOT NULL DEFAULT 0 CHECK (tax_cents >= 0),
  total_cents       integer NOT NULL CHECK (total_cents >= 0),
  coupon_code       text REFERENCES coupons (code),
  address           jsonb NOT NULL,
  shipping_method   text NOT NULL,
  shipping_rate_id  text,
  shipping_source   text NOT NULL DEFAULT 'fallback',
  tax_source        text NOT NULL DEFAULT 'fallback',
  payment_session   text,
  payment_intent    text,
  payment_method    text,
  payment_attempts  integer NOT NULL DEFAULT 0,
  payment_error     text,
  tracking_number   text,
  tracking_url      text,
  invoice_key       text,
  receipt_sent_at   timestamptz,
  jobs_queued_at    timestamptz,
  placed_at         timestamptz NOT NULL DEFAULT now(),
  paid_at           timestamptz,
  shipped_at        timestamptz,
  refunded_at       timestamptz,
  CHECK (total_cents = subtotal_cents - discount_cents + shipping_cents + tax_cents)
);
CREATE INDEX orders_user ON orders (user_id, placed_at DESC);
CREATE INDEX orders_placed ON orders (placed_at DESC);
CREATE INDEX orders_payment_session ON orders (payment_session);

CREATE TABLE order_items (
  order_id         bigint NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  product_id       bigint NOT NULL REFERENCES products (id),
  name             text NOT NULL,
  unit_price_cents integer NOT NULL CHECK (unit_price_cents > 0),
  quantity         integer NOT NULL CHECK (quantity > 0),
  PRIMARY KEY (order_id, product_id)
);

CREATE TABLE order_notes (
  id         bigserial PRIMARY KEY,
  order_id   bigint NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  author     text NOT NULL,
  text       text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
