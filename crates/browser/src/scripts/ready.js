async function (hidden) {
  const one = this.nodeType === 3 ? this.parentElement : this;
  if (!one || !one.isConnected) return { state: 'gone' };
  const frame = () => new Promise((done) => { const late = setTimeout(done, 60); requestAnimationFrame(() => { clearTimeout(late); done(); }); });
  const field = one.matches && one.matches('input,textarea,select,button,[role],a') ? one : one.closest && one.closest('button,a,[role=button]') || one;
  if (field.disabled || (field.getAttribute && field.getAttribute('aria-disabled') === 'true')) return { state: 'disabled' };
  if (hidden) return { state: 'ok', x: 0, y: 0 };
  one.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
  const before = one.getBoundingClientRect();
  await frame();
  const box = one.getBoundingClientRect();
  if (box.width === 0 || box.height === 0 || getComputedStyle(one).visibility === 'hidden') return { state: 'hidden' };
  if (Math.abs(before.x - box.x) > 1 || Math.abs(before.y - box.y) > 1) return { state: 'moving' };
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  let hit = document.elementFromPoint(x, y);
  while (hit && hit.shadowRoot && hit.shadowRoot.elementFromPoint(x, y) && hit.shadowRoot.elementFromPoint(x, y) !== hit) {
    hit = hit.shadowRoot.elementFromPoint(x, y);
  }
  const label = hit && hit.closest && hit.closest('label');
  const related = hit && (hit === one || one.contains(hit) || hit.contains(one) || (label && label.control === one) || (hit.getRootNode().host && one.contains(hit.getRootNode().host)));
  if (!related) {
    const by = hit ? hit.localName + (hit.id ? '#' + hit.id : '') : 'nothing';
    return { state: 'covered', by: by.slice(0, 100), left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
  }
  return { state: 'ok', x, y, framed: window !== window.top, left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
}
