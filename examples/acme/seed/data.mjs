export const categories = [
  { slug: 'light', name: 'Light' },
  { slug: 'table', name: 'Table' },
  { slug: 'living', name: 'Living' },
  { slug: 'study', name: 'Study' },
];

const image = (slug) => `/static/products/${slug}.webp`;

export const products = [
  { slug: 'aurora-table-lamp', name: 'Aurora Table Lamp', tagline: 'Warm light for the end of the day', category: 'light', price: 8900, weight: 2100, stock: 14,
    description: 'A hand-thrown terracotta base and a linen shade that softens the bulb to the colour of late afternoon. The cloth-covered cord is two metres long and has its switch where your hand already is.' },
  { slug: 'dune-pendant-light', name: 'Dune Pendant Light', tagline: 'Ribbed stoneware, quiet glow', category: 'light', price: 12900, weight: 3200, stock: 8,
    description: 'Turned from pale stoneware with the maker’s rings left visible. Hangs low over a table without getting in the way of the conversation. Comes with three metres of cord and a brass fitting.' },
  { slug: 'ember-candle', name: 'Ember Candle', tagline: 'Cedar, fig and a little smoke', category: 'light', price: 2400, weight: 520, stock: 60,
    description: 'Soy wax in a glazed cup that becomes a tumbler when the candle is gone. Burns for about forty-five hours with a scent that stays in the background.' },
  { slug: 'harbour-teapot', name: 'Harbour Teapot', tagline: 'Pours without a drip', category: 'table', price: 5400, weight: 1300, stock: 22,
    description: 'Four cups of tea and a spout that was redrawn eleven times until it stopped dripping. Glazed in the blue of deep water, with a brass knob that stays cool.' },
  { slug: 'morning-mugs', name: 'Morning Mugs, Set of Two', tagline: 'One for you, one for company', category: 'table', price: 3200, weight: 800, stock: 45,
    description: 'Generous mugs with a handle that fits all four fingers. One in cream, one in sage, both at home in the dishwasher and the microwave.' },
  { slug: 'low-tide-bowl', name: 'Low Tide Bowl', tagline: 'For fruit, salad, or nothing at all', category: 'table', price: 4800, weight: 1500, stock: 17,
    description: 'A wide stoneware bowl, sand outside and sea green within. Large enough for a salad for six and good-looking enough to stay on the table afterwards.' },
  { slug: 'olive-wood-board', name: 'Olive Wood Board', tagline: 'Every grain is different', category: 'table', price: 4600, weight: 1100, stock: 26,
    description: 'Cut from a single piece of olive wood and finished with oil. Bread on one side, everything else on the other. Each one has its own grain, so yours will not look quite like the picture.' },
  { slug: 'arc-vase', name: 'Arc Vase', tagline: 'Three branches are enough', category: 'living', price: 4200, weight: 1200, stock: 11,
    description: 'A narrow neck that holds stems upright and a wide body that keeps it steady. Made for a few branches from the garden rather than a full bouquet.' },
  { slug: 'heather-throw', name: 'Heather Throw', tagline: 'Lambswool, brushed twice', category: 'living', price: 9800, weight: 1400, stock: 9,
    description: 'Woven from lambswool in a small mill and brushed twice, so that it is soft from the first evening. Large enough for two, if you get along.' },
  { slug: 'perch-stool', name: 'Perch Stool', tagline: 'The last one of the batch', category: 'living', price: 14900, weight: 4600, stock: 1,
    description: 'Solid oak, four legs, no screws. A seat, a bedside table, a place for the book you are reading. We make them in batches of twelve, and this is the last of the present one.' },
  { slug: 'moss-planter', name: 'Moss Planter', tagline: 'Room for roots', category: 'living', price: 3800, weight: 1900, stock: 19,
    description: 'An unglazed planter that lets the soil breathe and grows a patina of its own with the years. With a saucer that catches what you pour too much.' },
  { slug: 'tempo-wall-clock', name: 'Tempo Wall Clock', tagline: 'Keeps time, keeps quiet', category: 'study', price: 7200, weight: 1600, stock: 13,
    description: 'A beech rim, a paper face and a movement that sweeps rather than ticks. Runs for about two years on one battery.' },
  { slug: 'linen-notebook', name: 'Linen Notebook', tagline: 'Lies flat, stays open', category: 'study', price: 1900, weight: 380, stock: 120,
    description: 'One hundred and ninety-two pages of paper that takes ink well, thread-sewn so that it lies flat. The linen cover wears in rather than out. Comes with a pencil.' },
].map((product) => ({ ...product, image: image(product.slug) }));

export const coupons = [
  { code: 'WELCOME10', kind: 'percent', value: 10, terms: { minimumCents: 2000, capCents: 2500 } },
  { code: 'TENOFF', kind: 'fixed', value: 1000, terms: { minimumCents: 5000 } },
  { code: 'SPRING15', kind: 'percent', value: 15, terms: null },
  { code: 'SUMMER24', kind: 'percent', value: 20, terms: { capCents: 4000 }, expires: '2024-09-01T00:00:00Z' },
];

const address = (name, street, city, state, zip) => ({ name, street, city, state, zip, country: 'US' });

/** Passwords for development only. */
export const customers = [
  { email: 'customer@acme.example', name: 'Robin Miller', role: 'customer', password: 'customer-password', address: address('Robin Miller', '412 Alder Street', 'Seattle', 'WA', '98101') },
  { email: 'ines@acme.example', name: 'Ines Duarte', role: 'customer', password: 'customer-password', address: address('Ines Duarte', '77 Mission Street', 'San Francisco', 'CA', '94105') },
  { email: 'samuel@acme.example', name: 'Samuel Okafor', role: 'customer', password: 'customer-password', address: address('Samuel Okafor', '19 Orchard Street', 'New York', 'NY', '10002') },
  { email: 'yuki@acme.example', name: 'Yuki Tanaka', role: 'customer', password: 'customer-password', address: address('Yuki Tanaka', '2300 Pearl Street', 'Boulder', 'CO', '80302') },
];

export const staff = [
  { email: 'admin@acme.example', name: 'Alex Novak', role: 'admin', password: 'admin-password' },
  { email: 'support@acme.example', name: 'Sasha Lindqvist', role: 'support', password: 'support-password' },
];
