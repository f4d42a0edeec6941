// Builds crates/server/src/admin/web/dist/app.js from src. What it writes is committed, so that building Larder needs
// nothing but Rust. `node build.mjs DIRECTORY` writes elsewhere, for the test that compares.
import { build } from 'esbuild';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';

const web = fileURLToPath(new URL('../../crates/server/src/admin/web/', import.meta.url));
const out = process.argv[2] ?? join(web, 'dist');

await mkdir(out, { recursive: true });
await build({
    entryPoints: [join(web, 'src/main.ts')],
    outfile: join(out, 'app.js'),
    // Paths in the output are relative to this, so that it is the same wherever the tree stands.
    absWorkingDir: web,
    bundle: true,
    format: 'esm',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'warning',
});
