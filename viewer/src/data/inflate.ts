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

/** Browsers before those of the message lack the class, or this format of it. */
function decompressor(): DecompressionStream {
  try {
    return new DecompressionStream('deflate-raw');
  } catch {
    throw new DataError(
      'this browser has no DecompressionStream for deflate-raw; use Chrome 103, Firefox 113, Safari 16.4 or newer',
    );
  }
}

export async function inflateRaw(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(decompressor());
  try {
    return new Uint8Array(await new Response(stream).arrayBuffer());
  } catch {
    throw new DataError('the data in this page cannot be unpacked: the file is damaged or cut off');
  }
}
