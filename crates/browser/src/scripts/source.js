(async (url, most) => {
  const text = async (from) => { const answer = await fetch(from, { credentials: 'same-origin' }); return answer.ok ? (await answer.text()).slice(0, most) : ''; };
  const script = await text(url);
  const found = /sourceMappingURL=(\S+)\s*$/.exec(script.slice(-most));
  if (!found) return '';
  if (found[1].startsWith('data:')) return found[1].slice(0, most);
  const map = new URL(found[1], url);
  return map.origin === location.origin ? text(map.href) : '';
})
