// What the page is to open: from the elements of the one HTML file or from the server.

import { DataError } from './columns';

export interface BootItem {
  id: number;
  name: string;
  kind: string;
  side?: string;
}

export interface Boot {
  mode: 'file' | 'server';
  items: BootItem[];
  version: string;
  /** What the server offers beyond the data, such as "record". */
  can?: string[];
}

export function readBoot(): Boot {
  const text = document.getElementById('pellucid-boot')?.textContent ?? '';
  try {
    const boot = JSON.parse(text) as Boot;
    return {
      mode: boot.mode === 'server' ? 'server' : 'file',
      items: boot.items ?? [],
      version: boot.version ?? '',
      can: boot.can ?? [],
    };
  } catch {
    throw new DataError('this page does not say what to open: the file is damaged');
  }
}

/** The sentence of a refusal. */
export async function errorOf(response: Response): Promise<string> {
  try {
    const body = (await response.json()) as { error?: string };
    if (body.error) return body.error;
  } catch {
    // Not one of the server's own refusals.
  }
  return `the server refused (${response.status})`;
}
