// Decodes a container and makes what follows from all its events, away from the page's thread.
// In: {text} (base64 of the one HTML file) or {bytes} (of the server). Out: {prepared} or {error}.

import { readContainer } from './data/container';
import { fromBase64, inflateRaw } from './data/inflate';
import { prepare, type Prepared } from './model/profile';

export interface Job {
  text?: string;
  bytes?: Uint8Array;
}
export type Answer = { prepared: Prepared } | { error: string };

async function run(job: Job): Promise<Prepared> {
  const bytes = job.bytes ?? (await inflateRaw(fromBase64(job.text ?? '')));
  return prepare(readContainer(bytes));
}

function buffers(prepared: Prepared): Transferable[] {
  const arrays = [
    ...Object.values(prepared.columns),
    prepared.rows.depth,
    prepared.rows.order,
    ...prepared.rows.levels,
  ];
  return [...new Set(arrays.map((a) => a.buffer))];
}

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<Job>) => void) | null;
  postMessage(answer: Answer, transfer?: Transferable[]): void;
};

scope.onmessage = (event) => {
  run(event.data).then(
    (prepared) => scope.postMessage({ prepared }, buffers(prepared)),
    (error: Error) => scope.postMessage({ error: error.message }),
  );
};
