/**
 * Tagged templates that escape everything they interpolate. Nested `html` and
 * arrays are joined, `null`, `undefined` and `false` disappear.
 */
const ENTITIES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export const escape = (value) => String(value).replace(/[&<>"']/g, (c) => ENTITIES[c]);

class Html {
  constructor(text) {
    this.text = text;
  }
  toString() {
    return this.text;
  }
}

/** Marks text as markup. Only for text that this program wrote itself. */
export const raw = (text) => new Html(String(text));

function render(value) {
  if (value === null || value === undefined || value === false || value === true) return '';
  if (value instanceof Html) return value.text;
  if (Array.isArray(value)) return value.map(render).join('');
  return escape(value);
}

/** @returns {Html} */
export function html(strings, ...values) {
  let text = strings[0];
  values.forEach((value, i) => {
    text += render(value) + strings[i + 1];
  });
  return new Html(text);
}

/** JSON that is safe inside a `<script type="application/json">` element. */
export const json = (value) => raw(JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));

/** A link target from data: only http(s) and local paths survive. */
export const safeUrl = (value) => (/^(https?:\/\/|\/(?!\/))/i.test(String(value)) ? value : '#');
