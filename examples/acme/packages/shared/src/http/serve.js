/** Listens, and closes everything in order when the process is told to stop. */
export async function serve(app, { config, log, close }) {
  let stopping = false;
  const stop = async (signal) => {
    if (stopping) return;
    stopping = true;
    log.info({ signal }, 'stopping');
    setTimeout(() => process.exit(1), 8_000).unref();
    await app.close();
    await close?.();
    process.exit(0);
  };
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, stop);
  try {
    await app.listen({ port: config.PORT, host: config.HOST });
  } catch (error) {
    if (error.code !== 'EADDRINUSE') throw error;
    process.stderr.write(`${config.app}: port ${config.PORT} is in use\n`);
    process.exit(1);
  }
  log.info({ port: config.PORT }, 'listening');
}
