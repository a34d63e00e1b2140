// A server for tests. $CRIA is the program.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after } from 'node:test';

/**
 * Runs `cria serve` with the demo model on a free port until the test that started it, or its file,
 * ends. Fails unless the program ends cleanly.
 */
export async function startServer(...flags) {
  const program = process.env.CRIA;
  assert(program, 'CRIA names the program');
  const child = spawn(program, ['serve', '--port', '0', ...flags], { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = once(child, 'exit');
  let said = '';
  const address = new Promise((done, failed) => {
    child.stderr.on('data', (data) => {
      said += data;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said);
      if (found) done(found[0]);
    });
    child.on('exit', (code) => failed(new Error(`cria serve ended with ${code}: ${said}`)));
  });
  const url = await address;
  const stop = async () => {
    if (child.exitCode === null) child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null], said);
  };
  after(stop);
  while (!(await fetch(`${url}/health`)).ok) await new Promise((done) => setTimeout(done, 50));
  return { url, stop };
}
