(async () => {
  const ended = (worker) => new Promise((done) => {
    const look = () => (worker.state === 'activated' || worker.state === 'redundant') && done();
    worker.addEventListener('statechange', look);
    look();
  });
  // Only secure pages have them.
  const all = navigator.serviceWorker ? await navigator.serviceWorker.getRegistrations() : [];
  const starting = all.filter((one) => !one.active).map((one) => one.installing || one.waiting);
  await Promise.all(starting.filter(Boolean).map(ended));
})()
