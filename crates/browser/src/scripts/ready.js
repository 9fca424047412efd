async function (hidden, press) {
  const one = this.nodeType === 3 ? this.parentElement : this;
  if (!one || !one.isConnected) return { state: 'gone' };
  const frame = () => new Promise((done) => { const late = setTimeout(done, 60); requestAnimationFrame(() => { clearTimeout(late); done(); }); });
  const field = one.matches && one.matches('input,textarea,select,button,[role],a') ? one : one.closest && one.closest('button,a,[role=button]') || one;
  if (field.matches(':disabled') || (field.getAttribute && field.getAttribute('aria-disabled') === 'true')) return { state: 'disabled' };
  const named = (hit) => ((hit && hit.localName || 'nothing') + (hit && hit.id ? '#' + hit.id : '')).slice(0, 100);
  // A press that arrives elsewhere, because the page moved in between, does nothing there.
  const watch = (belongs) => {
    if (window.hothousePress) window.hothousePress.end();
    const kinds = ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'];
    const presses = () => performance.eventCounts.get('pointerdown');
    const press = window.hothousePress = { by: '', before: presses(), presses };
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
  // An element without a box of its own (`display: contents`) is where its content is.
  const content = () => {
    const range = document.createRange();
    range.selectNodeContents(one);
    return range;
  };
  const placed = () => (one.getClientRects().length ? one : content());
  const before = placed().getBoundingClientRect();
  await frame();
  const box = placed().getBoundingClientRect();
  const style = getComputedStyle(one);
  if (box.width === 0 || box.height === 0 || style.visibility === 'hidden') return { state: 'hidden' };
  if (Math.abs(before.x - box.x) > 1 || Math.abs(before.y - box.y) > 1) return { state: 'moving' };
  if (press && style.pointerEvents === 'none' && one.matches('button,a,[role=button]')) return { state: 'passive' };
  // Parents as they are shown: the content of a slot is within the slot.
  const within = (outer, inner) => {
    for (let at = inner; at; at = at.assignedSlot || at.parentNode || at.host) if (at === outer) return true;
    return false;
  };
  const hosts = [];
  for (let root = one.getRootNode(); root.host; root = root.host.getRootNode()) hosts.push(root.host);
  // What holds the element is another place to click, unless the element lets the mouse through. Of what is in a
  // closed shadow root only the host is told.
  const passes = style.pointerEvents === 'none';
  const belongs = (hit) => {
    if (!hit) return false;
    const label = hit.closest && hit.closest('label');
    return within(one, hit) || (within(hit, one) && (passes || within(field, hit))) || !!(label && label.control === one)
      || (hosts.includes(hit) && !hit.shadowRoot);
  };
  // A link that goes on in the next line has a middle where there is no link.
  const part = [...placed().getClientRects()].reduce((most, rect) => (rect.width * rect.height > most.width * most.height ? rect : most), { width: 0, height: 0 });
  const [x, y] = [part.x + part.width / 2, part.y + part.height / 2];
  let hit = document.elementFromPoint(x, y);
  while (hit && hit.shadowRoot && hit.shadowRoot.elementFromPoint(x, y) && hit.shadowRoot.elementFromPoint(x, y) !== hit) {
    hit = hit.shadowRoot.elementFromPoint(x, y);
  }
  // Text in a slot counts as its host's, and what is in a closed shadow root too.
  const isHost = hosts.includes(hit);
  if (isHost) hit = one.getRootNode().elementFromPoint(x, y) || hit;
  if (!belongs(hit) && !(isHost && hosts.includes(hit))) {
    return { state: 'covered', by: named(hit), left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
  }
  if (press) watch(belongs);
  return { state: 'ok', x, y, framed: window !== window.top, left: box.x + scrollX, top: box.y + scrollY, width: box.width, height: box.height };
}
