(async (most) => {
  const cut = (text, length) => (text || '').slice(0, length);
  const late = (promise, time) => Promise.race([promise, new Promise((done) => setTimeout(done, time, 'late'))]);
  const source = (one) => cut(one.currentSrc || one.src || (one.querySelector && one.querySelector('source') || {}).src, 2000);
  const media = [];
  const pictures = [...document.images].filter((one) => source(one) && (one.complete || one.loading !== 'lazy')).slice(0, 300);
  const decoded = await Promise.all(pictures.map((one) => late(one.decode().then(() => true, () => false), 1000)));
  pictures.forEach((one, at) => {
    media.push({ src: source(one), width: one.naturalWidth, height: one.naturalHeight, type: 'img',
      ok: one.naturalWidth > 0 && decoded[at] !== false, alt: one.hasAttribute('alt') ? cut(one.alt, 200) : null });
  });
  for (const one of [...document.querySelectorAll('video,audio')].slice(0, 100)) {
    if (!source(one) || (one.preload === 'none' && one.readyState === 0 && !one.error)) continue;
    const broken = one.error || (one.readyState === 0 && one.networkState === 3);
    media.push({ src: source(one), width: one.videoWidth || 0, height: one.videoHeight || 0, type: one.localName, ok: !broken, alt: null });
  }
  const observed = (type) => new Promise((done) => {
    try {
      new PerformanceObserver((list) => done(list.getEntries())).observe({ type, buffered: true });
      setTimeout(done, 40, []);
    } catch { done([]); }
  });
  const [largest, shifts] = await Promise.all([observed('largest-contentful-paint'), observed('layout-shift')]);
  const navigation = performance.getEntriesByType('navigation')[0] || {};
  const paint = performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint');
  const positive = (number) => (number > 0 ? number : null);
  const stored = (storage) => {
    const all = {};
    try {
      for (let at = 0; at < Math.min(storage().length, 500); at += 1) {
        const key = storage().key(at);
        all[cut(key, 300)] = cut(storage().getItem(key), 20000);
      }
    } catch { /* the page may not have one */ }
    return all;
  };
  // What is in open shadow roots is shown too, and in no `innerText`.
  const hidden = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'LINK']);
  const inside = (root) => [...root.querySelectorAll('*')].flatMap((one) => (one.shadowRoot
    ? [...[...one.shadowRoot.children].filter((own) => !hidden.has(own.nodeName)).map((own) => own.innerText), ...inside(one.shadowRoot)] : []));
  const text = document.body ? [document.body.innerText, ...inside(document.body)].filter(Boolean).join('\n') : '';
  return {
    title: cut(document.title, 1000),
    url: cut(location.href, 2000),
    text: cut(text, most),
    media,
    local: stored(() => localStorage),
    session: stored(() => sessionStorage),
    vitals: {
      ttfb_ms: positive(navigation.responseStart),
      fcp_ms: paint ? paint.startTime : null,
      lcp_ms: largest.length ? largest[largest.length - 1].startTime : null,
      cls: shifts.reduce((sum, one) => sum + (one.hadRecentInput ? 0 : one.value), 0),
      dom_content_loaded_ms: positive(navigation.domContentLoadedEventEnd),
      load_ms: positive(navigation.loadEventEnd),
    },
  };
})
