// Keeps the page up to date. Without scripts the page reloads every few seconds.
(() => {
  const main = document.querySelector('main');
  const sandbox = main.dataset.sandbox;
  const live = document.getElementById('live');
  const source = new EventSource(sandbox ? `/live?sandbox=${encodeURIComponent(sandbox)}` : '/live');
  source.onopen = () => { live.textContent = 'live'; live.className = 'live on'; };
  source.onerror = () => { live.textContent = 'not connected'; live.className = 'live off'; };
  // What somebody has marked to copy stays until they let go of it.
  const marked = () => { const chosen = getSelection(); return !chosen.isCollapsed && main.contains(chosen.anchorNode); };
  let waiting = null;
  document.addEventListener('selectionchange', () => { if (waiting !== null && !marked()) show(waiting); });
  source.onmessage = (event) => { if (marked()) waiting = event.data; else show(event.data); };
  const show = (text) => {
    waiting = null;
    const open = new Set([...main.querySelectorAll('details[open]')].map((element) => element.id));
    const atEnd = new Map([...main.querySelectorAll('pre[id]')].map((pre) => [pre.id, pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4 ? null : pre.scrollTop]));
    const focus = document.activeElement && document.activeElement.id;
    const parsed = new DOMParser().parseFromString(text, 'text/html');
    main.replaceChildren(...parsed.body.childNodes);
    for (const id of open) { const element = document.getElementById(id); if (element) element.open = true; }
    for (const pre of main.querySelectorAll('pre[id]')) pre.scrollTop = atEnd.get(pre.id) ?? pre.scrollHeight;
    if (focus) { const element = document.getElementById(focus); if (element) element.focus({ preventScroll: true }); }
  };
  for (const pre of main.querySelectorAll('pre[id]')) pre.scrollTop = pre.scrollHeight;
})();
