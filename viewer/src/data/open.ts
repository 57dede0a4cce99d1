// Opens an item of the page in a worker, and in the page itself where a browser refuses workers.

import type { Answer, Job } from '../worker';
import { DataError } from './columns';
import { readContainer } from './container';
import { errorOf, type Boot } from './boot';
import { fromBase64, inflateRaw } from './inflate';
import { prepare, type Prepared } from '../model/profile';

declare const WORKER_SOURCE: string;

function startWorker(): Worker | null {
  try {
    return new Worker(URL.createObjectURL(new Blob([WORKER_SOURCE], { type: 'text/javascript' })));
  } catch {
    return null;
  }
}

async function jobOf(boot: Boot, id: number): Promise<Job> {
  if (boot.mode === 'file') {
    const element = document.getElementById(`pellucid-data-${id}`);
    if (!element) throw new DataError('the data of this page is missing: the file is cut off');
    const text = element.textContent ?? '';
    // The worker has it now; the page need not keep a second copy of what may be megabytes.
    element.remove();
    return { text };
  }
  let response: Response;
  try {
    response = await fetch(`data/${id}`, { credentials: 'same-origin' });
  } catch {
    throw new DataError('the server does not answer; it may have ended. Start `pellucid view` again');
  }
  if (!response.ok) throw new DataError(await errorOf(response));
  return { bytes: new Uint8Array(await response.arrayBuffer()) };
}

export async function openItem(boot: Boot, id: number): Promise<Prepared> {
  const job = await jobOf(boot, id);
  const worker = startWorker();
  if (!worker) return prepare(readContainer(job.bytes ?? (await inflateRaw(fromBase64(job.text ?? '')))));
  try {
    return await new Promise<Prepared>((resolve, reject) => {
      worker.onmessage = (event: MessageEvent<Answer>) => {
        if ('error' in event.data) reject(new DataError(event.data.error));
        else resolve(event.data.prepared);
      };
      worker.onerror = (event) =>
        reject(new DataError(`the view data cannot be read: ${event.message || 'the worker failed'}`));
      worker.postMessage(job, job.bytes ? [job.bytes.buffer] : []);
    });
  } finally {
    worker.terminate();
  }
}
