// base64(deflate-raw(container)), as the one HTML file holds it. atob instead of fetch(data:), which
// the page's policy forbids.

import { DataError } from './columns';

export function fromBase64(text: string): Uint8Array {
  let binary: string;
  try {
    binary = atob(text.trim());
  } catch {
    throw new DataError('the data in this page is not valid base64: the file is damaged');
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export async function inflateRaw(bytes: Uint8Array): Promise<Uint8Array> {
  if (typeof DecompressionStream === 'undefined')
    throw new DataError('this browser has no DecompressionStream; use Chrome 103, Firefox 113, Safari 16.4 or newer');
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new DataError('the data in this page cannot be unpacked: the file is damaged or cut off');
  }
}
