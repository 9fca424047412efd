import { html, raw } from '@acme/shared/html';
import { csrfField, icon, imageUrl, layout, money } from './layout.js';

const card = (product, { eager = false } = {}) => html`<li class="card"><a href="/products/${product.slug}">
<div class="picture"><img src="${imageUrl(product.thumbnail ?? product.image)}" alt="${product.name}" width="900" height="900"${eager ? '' : raw(' loading="lazy"')}>
${product.stock === 0 ? html`<span class="tag">Sold out</span>` : product.stock <= 3 && html`<span class="tag warm">${product.stock === 1 ? 'Last one' : `Only ${product.stock} left`}</span>`}</div>
<h3>${product.name}</h3><p>${product.tagline}</p><p class="price">${money(product.priceCents)}</p></a></li>`;

const promise = (name, title, text) => html`<li>${icon(name)}<div><strong>${title}</strong><p>${text}</p></div></li>`;

export function homePage(view, { products, categories }) {
  const hero = products.find((p) => p.slug === 'arc-vase') ?? products[0];
  const second = products.find((p) => p.slug === 'harbour-teapot') ?? products[1];
  const covers = { light: 'aurora-table-lamp', table: 'morning-mugs', living: 'heather-throw', study: 'linen-notebook' };
  const cover = (category) => products.find((p) => p.slug === covers[category.slug]) ?? products.find((p) => p.category === category.slug);
  return layout(view, { description: 'Lamps, tableware and things to live with, made in small batches.' }, html`
<section class="hero"><div class="words"><p class="eyebrow">The autumn table</p><h1>Quiet objects for lively homes</h1>
<p>Lamps, tableware and things to live with. Made in small batches by people who use them, too.</p>
<p class="actions"><a class="button" href="/shop">Look around</a> <a class="plainlink" href="/shop?category=table">Set the table</a></p></div>
${hero && html`<a class="shot first" href="/products/${hero.slug}"><img src="${imageUrl(hero.image)}" alt="${hero.name}" width="900" height="900"></a>`}
${second && html`<a class="shot second" href="/products/${second.slug}"><img src="${imageUrl(second.image)}" alt="${second.name}" width="900" height="900"><span>${second.name}, ${money(second.priceCents)}</span></a>`}
</section>
<ul class="promises">${promise('leaf', 'Small batches', 'Made to last, and to be mended.')}${promise('truck', 'From Portland in two days', 'To the whole of the US and Canada.')}${promise('return', 'Sixty days to decide', 'Send it back if it does not fit.')}</ul>
<section><div class="heading"><h2>Rooms</h2></div><ul class="rooms">${categories.map((category) => html`<li><a href="/shop?category=${category.slug}">${cover(category) && html`<img src="${imageUrl(cover(category).image)}" alt="" width="900" height="900" loading="lazy">`}<span>${category.name}<small>${category.products} things</small></span></a></li>`)}</ul></section>
<section><div class="heading"><h2>Favourites</h2><a class="plainlink" href="/shop">See everything</a></div>
<ul class="grid">${products.slice(0, 8).map((product) => card(product))}</ul></section>`);
}

const SORTS = [['', 'Featured'], ['price', 'Price, low to high'], ['price-desc', 'Price, high to low'], ['name', 'Name']];

export function cataloguePage(view, { products, categories, query }) {
  const category = categories.find((c) => c.slug === query.category);
  const title = query.q ? `Results for “${query.q}”` : (category?.name ?? 'Everything');
  const link = (change) => `/shop?${new URLSearchParams(Object.entries({ ...query, ...change }).filter(([, v]) => v))}`;
  return layout({ ...view, search: query.q }, { title, current: category?.slug ?? (query.q ? '' : 'all') }, html`
<div class="heading page"><div><h1>${title}</h1><p class="quiet">${products.length} ${products.length === 1 ? 'thing' : 'things'}</p></div>
<form action="/shop" class="sort">${query.category && html`<input type="hidden" name="category" value="${query.category}">`}${query.q && html`<input type="hidden" name="q" value="${query.q}">`}
<label for="sort">Sort by</label><select id="sort" name="sort" data-submit>${SORTS.map(([value, name]) => html`<option value="${value}"${(query.sort ?? '') === value ? raw(' selected') : ''}>${name}</option>`)}</select><noscript><button class="button small">Go</button></noscript></form></div>
<nav class="chips" aria-label="Filter"><a href="${link({ category: '' })}"${category ? '' : raw(' aria-current="true"')}>All</a>${categories.map((c) => html`<a href="${link({ category: c.slug })}"${category === c ? raw(' aria-current="true"') : ''}>${c.name}</a>`)}</nav>
${products.length ? html`<ul class="grid">${products.map((product, i) => card(product, { eager: i < 4 }))}</ul>` : html`<div class="empty"><h2>Nothing found</h2><p>Try another word, or <a href="/shop">see everything</a>.</p></div>`}`);
}

export function productPage(view, { product, related }) {
  const soldOut = product.stock === 0;
  const most = Math.min(product.stock, 20);
  return layout(view, { title: product.name, description: product.tagline, current: product.category }, html`
<nav class="crumbs" aria-label="You are here"><a href="/shop">Everything</a> / <a href="/shop?category=${product.category}">${product.categoryName}</a></nav>
<article class="product"><div class="picture"><img src="${imageUrl(product.image)}" alt="${product.name}" width="900" height="900"></div>
<div class="facts"><h1>${product.name}</h1><p class="tagline">${product.tagline}</p><p class="price">${money(product.priceCents)}</p>
<p class="stock ${soldOut ? 'none' : product.stock <= 3 ? 'low' : ''}">${soldOut ? 'Sold out' : product.stock <= 3 ? (product.stock === 1 ? 'The last one' : `Only ${product.stock} left`) : 'In stock, leaves us within two days'}</p>
<form method="post" action="/cart" class="buy" data-add>${csrfField(view)}<input type="hidden" name="slug" value="${product.slug}">
${!soldOut && html`<label class="hidden" for="quantity">Quantity</label><select id="quantity" name="quantity">${Array.from({ length: most }, (_, i) => html`<option>${i + 1}</option>`)}</select>`}
<button class="button wide"${soldOut ? raw(' disabled') : ''}>${soldOut ? 'Sold out' : 'Add to cart'}</button></form>
<p class="said" data-said role="status" hidden></p>
<div class="text"><p>${product.description}</p></div>
<dl><div><dt>Weight</dt><dd>${(product.weightGrams / 1000).toFixed(1)} kg</dd></div><div><dt>Delivery</dt><dd>2 to 5 days</dd></div><div><dt>Returns</dt><dd>within 60 days</dd></div></dl></div></article>
<section><div class="heading"><h2>Goes well with</h2></div><ul class="grid">${related.map((p) => card(p))}</ul></section>`);
}
