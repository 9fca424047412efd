(origins) => {
  const own = origins[location.origin];
  if (!own) return;
  try {
    if (sessionStorage.getItem('__hothouse_state')) return;
    sessionStorage.setItem('__hothouse_state', '1');
    Object.entries(own).forEach(([name, value]) => localStorage.setItem(name, value));
  } catch { /* an origin without storage */ }
}
