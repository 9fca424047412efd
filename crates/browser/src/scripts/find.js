(query, nth) => {
  const plain = (text) => (text || '').replace(/\s+/g, ' ').trim().toLowerCase();
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(one).visibility !== 'hidden';
  };
  // Elements of open shadow roots too, as a reader sees them.
  const all = (selector, root = document) => [...root.querySelectorAll(selector),
    ...[...root.querySelectorAll('*')].flatMap((one) => (one.shadowRoot ? all(selector, one.shadowRoot) : []))];
  const skipped = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD']);
  const parts = (one) => {
    const slotted = one.nodeName === 'SLOT' ? one.assignedNodes() : [];
    return slotted.length ? slotted : [...(one.shadowRoot || one).childNodes];
  };
  let found = [];
  if (query.css) {
    found = all(query.css);
  } else if (query.testid) {
    const names = ['data-testid', 'data-test-id', 'data-test', 'data-cy', 'data-qa'];
    found = all(names.map((name) => `[${name}="${CSS.escape(query.testid)}"]`).join(','));
  } else if (query.placeholder) {
    const wanted = plain(query.placeholder);
    found = all('[placeholder]').filter((one) => plain(one.placeholder).includes(wanted));
  } else if (query.text) {
    const wanted = plain(query.text);
    // Returns its text, which unlike `textContent` has no scripts, and notes the innermost elements with what is wanted.
    const walk = (one) => {
      if (one.nodeType === 3) return one.data;
      if (one.nodeType !== 1 || skipped.has(one.nodeName)) return '';
      const before = found.length;
      const words = parts(one).map(walk).join('');
      if (found.length === before && plain(words).includes(wanted) && seen(one)) found.push(one);
      return words;
    };
    if (document.body) walk(document.body);
  }
  const shown = found.filter(seen);
  if (shown.length) found = shown;
  if (nth) return found[nth - 1] || 0;
  return found.length === 1 || query.first ? found[0] || 0 : found.length;
}
