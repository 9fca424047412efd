// Stands in for the script of a map, a tag or a chat: whatever a page asks of it is told, and goes on.
(() => {
  const GLOBALS = __GLOBALS__;
  const KIND = '__KIND__';
  const told = (text) => { try { globalThis.__hothouse_shim(`${NAME}: ${text}`); } catch { /* without a watcher */ } };
  const shown = (words) => words.map((word) => (typeof word === 'string' ? JSON.stringify(word.slice(0, 60)) : typeof word === 'function' ? 'function' : word instanceof Element ? `<${word.localName}>` : typeof word)).join(', ');
  const PLAIN = { lat: () => 0, lng: () => 0, getZoom: () => 10, getCenter: () => ({ lat: () => 0, lng: () => 0, toArray: () => [0, 0] }), isEmpty: () => false, loaded: () => true, toString: () => '', toJSON: () => ({}), isOpen: () => false };
  // A map and a chat have a place on the page, so that a picture shows it.
  const draw = (where) => {
    const place = typeof where === 'string' ? document.getElementById(where) : where;
    if (!(place instanceof Element) || place.dataset.hothouseShim) return;
    place.dataset.hothouseShim = KIND;
    place.append(Object.assign(document.createElement('div'), { textContent: `${KIND} (shim)`, style: 'font: 14px sans-serif; padding: 8px; background: #e8eef4; color: #234' }));
  };
  const later = (words) => words.filter((word) => typeof word === 'function').forEach((word) => setTimeout(() => word(anything('result')), 0));
  function anything(path) {
    const known = {};
    return new Proxy(function shim() {}, {
      get: (_, key) => {
        if (key in known) return known[key];
        if (key === Symbol.toPrimitive) return () => '';
        if (key === Symbol.iterator) return function* none() {};
        // A promise would wait for it forever.
        if (typeof key === 'symbol' || key === 'then') return undefined;
        if (key in PLAIN) return PLAIN[key];
        if (key === 'prototype') return {};
        return (known[key] = anything(`${path}.${key}`));
      },
      set: (_, key, value) => { known[key] = value; return true; },
      has: () => true,
      apply: (_, __, words) => {
        told(`${path}(${shown(words)})`);
        later(words);
        return path.endsWith('.importLibrary') ? Promise.resolve(anything(path.replace(/\.importLibrary$/, ''))) : anything(`${path}()`);
      },
      construct: (_, words) => {
        told(`new ${path}(${shown(words)})`);
        if (KIND === 'map') draw(words[0] instanceof Element || typeof words[0] === 'string' ? words[0] : words[0] && words[0].container);
        return anything(path);
      },
    });
  }
  for (const path of GLOBALS) {
    const [first, second] = path.split('.');
    const before = globalThis[first];
    // What a snippet has queued until its script comes.
    const queued = before && (before.q || before._q || before.queue || (Array.isArray(before) ? before : []));
    if (second) (globalThis[first] = typeof before === 'object' && before ? before : {})[second] = anything(path);
    else globalThis[first] = anything(path);
    [...(queued || [])].forEach((words) => words && told(`${path}(${shown([...words])})`));
  }
  const own = document.currentScript && new URL(document.currentScript.src, location.href);
  const callback = own && own.searchParams.get('callback');
  const begin = () => {
    const found = callback && callback.split('.').reduce((at, name) => at && at[name], globalThis);
    if (typeof found === 'function') found();
    if (KIND === 'chat') {
      const box = document.createElement('div');
      box.style = 'position: fixed; right: 16px; bottom: 16px; z-index: 2147483000';
      document.body.append(box);
      draw(box);
    }
  };
  told('loaded');
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', begin); else setTimeout(begin, 0);
})();
