async function (hidden, press) {
  const one = this.nodeType === 3 ? this.parentElement : this;
  if (!one || !one.isConnected) return { state: 'gone' };
  const frame = () => new Promise((done) => { const late = setTimeout(done, 60); requestAnimationFrame(() => { clearTimeout(late); done(); }); });
  const field = one.matches && one.matches('input,textarea,select,button,[role],a') ? one : one.closest && one.closest('button,a,[role=button]') || one;
  if (field.disabled || (field.getAttribute && field.getAttribute('aria-disabled') === 'true')) return { state: 'disabled' };
  const named = (hit) => ((hit && hit.localName || 'nothing') + (hit && hit.id ? '#' + hit.id : '')).slice(0, 100);
  // A press that arrives elsewhere, because the page moved in between, does nothing there.
  const watch = (belongs) => {
    if (window.hothousePress) window.hothousePress.end();
    const kinds = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'];
    const press = window.hothousePress = { by: '' };
    const see = (event) => {
      if (!event.isTrusted) return;
      const hit = event.composedPath()[0];
      if (event.type === 'pointerdown' && !belongs(hit)) press.by = named(hit);
      if (press.by === '') return;
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    press.end = () => kinds.forEach((kind) => window.removeEventListener(kind, see, true));
    kinds.forEach((kind) => window.addEventListener(kind, see, { capture: true, passive: false }));
  };
  if (hidden) return { state: 'ok', x: 0, y: 0 };
  one.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
  const before = one.getBoundingClientRect();
  await frame();
  const box = one.getBoundingClientRect();
  if (box.width === 0 || box.height === 0 || getComputedStyle(one).visibility === 'hidden') return { state: 'hidden' };
  if (Math.abs(before.x - box.x) > 1 || Math.abs(before.y - box.y) > 1) return { state: 'moving' };
  // What holds the element is another place to click, unless the element lets the mouse through.
  const passes = getComputedStyle(one).pointerEvents === 'none';
  const belongs = (hit) => {
    if (!hit) return false;
    const label = hit.closest && hit.closest('label');
    return hit === one || one.contains(hit) || (hit.contains(one) && (passes || field.contains(hit))) || !!(label && label.control === one)
      || (hit.getRootNode().host && one.contains(hit.getRootNode().host));
  };
  // A link that goes on in the next line has a middle where there is no link.
  const part = [...one.getClientRects()].reduce((most, rect) => (rect.width * rect.height > most.width * most.height ? rect : most), { width: 0, height: 0 });
  const [x, y] = [part.x + part.width / 2, part.y + part.height / 2];
  let hit = document.elementFromPoint(x, y);
  while (hit && hit.shadowRoot && hit.shadowRoot.elementFromPoint(x, y) && hit.shadowRoot.elementFromPoint(x, y) !== hit) {
    hit = hit.shadowRoot.elementFromPoint(x, y);
  }
  if (!belongs(hit)) {
    return { state: 'covered', by: named(hit), left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
  }
  if (press) watch(belongs);
  return { state: 'ok', x, y, framed: window !== window.top, left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
}
