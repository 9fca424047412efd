/**
 * Reads the `.env` file at the root of the workspace, if there is one. Values
 * that are already in the environment win. Import this before anything that
 * reads configuration.
 */
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../../../.env', import.meta.url));
try {
  process.loadEnvFile(file);
} catch (error) {
  if (error.code !== 'ENOENT') {
    process.stderr.write(`could not read ${file}: ${error.message}\n`);
    process.exit(1);
  }
}
