// What the page asks of its server beyond the data: live events, the playground, recording. Every
// change is a POST; the cookie says who asks.

import { errorOf } from './boot';

export async function post<T>(path: string, body: unknown): Promise<T> {
  const response = await fetch(`api/${path}`, {
    method: 'POST',
    credentials: 'same-origin',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await errorOf(response));
  return (await response.json()) as T;
}

export interface LiveEvent {
  type: 'lines' | 'recorded' | 'ended' | string;
  [key: string]: unknown;
}

/** Calls `take` with each event of an item until the run ends; returns what stops it. */
export function listen(
  item: number,
  position: Record<string, number>,
  take: (event: LiveEvent) => void,
  state: (open: boolean) => void,
): () => void {
  const from = new URLSearchParams(Object.entries(position).map(([file, bytes]) => [file, String(bytes)]));
  const source = new EventSource(`live/${item}?${from}`);
  source.onopen = () => state(true);
  source.onerror = () => state(false);
  source.onmessage = (message) => {
    let event: LiveEvent;
    try {
      event = JSON.parse(String(message.data)) as LiveEvent;
    } catch {
      // Half a line: the next message is whole again.
      return;
    }
    if (event.type === 'ended') source.close();
    take(event);
  };
  return () => source.close();
}
