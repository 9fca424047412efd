import { html, raw } from '@acme/shared/html';
import { adminOnly, csrfField, imageUrl, layout, money } from './layout.js';

export function productsPage(view, { products }, request) {
  return layout(view, { title: 'Products', side: html`<form class="find" action="/products"><input type="search" name="q" value="${request.query.q ?? ''}" placeholder="Search products" aria-label="Search products"></form>` }, html`
<div class="panel table"><table><thead><tr><th colspan="2">Product</th><th>Category</th><th class="num">Stock</th><th class="num">Price</th><th>Shown</th></tr></thead><tbody>
${products.map((p) => html`<tr><td class="pic"><img src="${imageUrl(view, p.thumbnail ?? p.image)}" alt="" width="48" height="48" loading="lazy"></td><td><a href="/products/${p.id}"><b>${p.name}</b></a><small>${p.tagline}</small></td><td data-label="Category">${p.categoryName}</td><td class="num ${p.stock <= 3 ? 'bad' : ''}" data-label="Stock">${p.stock}</td><td class="num" data-label="Price">${money(p.priceCents)}</td><td data-label="Shown">${p.active ? 'yes' : 'no'}</td></tr>`)}</tbody></table></div>`);
}

export function productPage(view, { product, categories, values, problems = {} }) {
  const v = values ?? { name: product.name, tagline: product.tagline, description: product.description, price: (product.priceCents / 100).toFixed(2), stock: product.stock, category: product.category, active: product.active };
  const says = (name) => problems[name] && html`<small class="bad">${problems[name]}</small>`;
  const readOnly = view.isAdmin ? '' : raw(' disabled');
  return layout(view, { title: product.name, side: html`<a class="button light" href="${view.webUrl}/products/${product.slug}">See in the shop</a>` }, html`
<div class="two wide"><form method="post" action="/products/${product.id}" class="panel form">${csrfField(view)}<fieldset${readOnly}>
<label>Name<input name="name" value="${v.name}" maxlength="120" required>${says('name')}</label><label>Tagline<input name="tagline" value="${v.tagline}" maxlength="200"></label>
<label>Text<textarea name="description" rows="6" maxlength="4000" data-text>${v.description}</textarea></label>
<div class="assist" data-assist="/products/${product.id}/describe"><input type="text" placeholder="What should it mention? (optional)" aria-label="Hint" maxlength="300"><button type="button" class="button light">Write with AI</button><p class="quiet" role="status"></p></div>
<div class="fields"><label>Price, in dollars<input name="price" inputmode="decimal" value="${v.price}" required>${says('price')}</label><label>Stock<input name="stock" inputmode="numeric" value="${v.stock}" required>${says('stock')}</label>
<label>Category<select name="category">${categories.map((c) => html`<option value="${c.slug}"${v.category === c.slug ? raw(' selected') : ''}>${c.name}</option>`)}</select>${says('category')}</label></div>
<label class="check"><input type="checkbox" name="active" value="1"${v.active ? raw(' checked') : ''}> Shown in the shop</label><button class="button"${adminOnly(view)}>Save</button></fieldset></form>
<section class="panel"><h2>Image</h2><div class="preview"><img src="${imageUrl(view, product.image)}" alt="${product.name}" width="900" height="900"></div>
<form method="post" action="/products/${product.id}/image" enctype="multipart/form-data" class="form">${csrfField(view)}<label>New image<input type="file" name="image" accept="image/png,image/jpeg,image/webp" required${readOnly}></label><p class="quiet">PNG, JPEG or WebP, at most 5 MB.</p><button class="button light"${adminOnly(view)}>Upload</button></form></section></div>`);
}
