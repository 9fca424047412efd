(query, nth) => {
  const plain = (text) => (text || '').replace(/\s+/g, ' ').trim().toLowerCase();
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(one).visibility !== 'hidden';
  };
  let found = [];
  if (query.css) {
    found = [...document.querySelectorAll(query.css)];
  } else if (query.testid) {
    const names = ['data-testid', 'data-test-id', 'data-test', 'data-cy', 'data-qa'];
    found = [...document.querySelectorAll(names.map((name) => `[${name}="${CSS.escape(query.testid)}"]`).join(','))];
  } else if (query.placeholder) {
    const wanted = plain(query.placeholder);
    found = [...document.querySelectorAll('[placeholder]')].filter((one) => plain(one.placeholder).includes(wanted));
  } else if (query.text) {
    const wanted = plain(query.text);
    const skipped = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD']);
    const walk = (one) => {
      if (skipped.has(one.nodeName) || !plain(one.textContent).includes(wanted)) return false;
      const below = [...one.children].map(walk).some(Boolean);
      if (!below && seen(one)) found.push(one);
      return below || seen(one);
    };
    if (document.body) walk(document.body);
  }
  const shown = found.filter(seen);
  if (shown.length) found = shown;
  if (nth) return found[nth - 1] || 0;
  return found.length === 1 || query.first ? found[0] || 0 : found.length;
}
