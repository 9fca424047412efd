CREATE TABLE categories (
  slug     text PRIMARY KEY,
  name     text NOT NULL,
  position integer NOT NULL DEFAULT 0
);

CREATE TABLE products (
  id            bigserial PRIMARY KEY,
  slug          text NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9]+(-[a-z0-9]+)*$'),
  name          text NOT NULL,
  tagline       text NOT NULL DEFAULT '',
  description   text NOT NULL DEFAULT '',
  category_slug text NOT NULL REFERENCES categories (slug),
  price_cents   integer NOT NULL CHECK (price_cents > 0),
  weight_grams  integer NOT NULL CHECK (weight_grams > 0),
  stock         integer NOT NULL CHECK (stock >= 0),
  image         text,
  thumbnail     text,
  active        boolean NOT NULL DEFAULT true,
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX products_category ON products (category_slug) WHERE active;

CREATE TABLE stock_movements (
  id         bigserial PRIMARY KEY,
  product_id bigint NOT NULL REFERENCES products (id) ON DELETE CASCADE,
  quantity   integer NOT NULL,
  reason     text NOT NULL CHECK (reason IN ('sale', 'release', 'delivery', 'correction')),
  created_at timestamptz NOT NULL DEFAULT now()
);
