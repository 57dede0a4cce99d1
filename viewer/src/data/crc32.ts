// CRC-32 as zlib computes it, of a column's bytes; eight bytes a step, each with a table of its own.

const STEP = 8;

function makeTables(): Uint32Array[] {
  const tables = Array.from({ length: STEP }, () => new Uint32Array(256));
  for (let n = 0; n < 256; n++) {
    let c = n;
    for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
    tables[0][n] = c >>> 0;
  }
  for (let t = 1; t < STEP; t++)
    for (let n = 0; n < 256; n++) tables[t][n] = (tables[0][tables[t - 1][n] & 0xff] ^ (tables[t - 1][n] >>> 8)) >>> 0;
  return tables;
}

const [t0, t1, t2, t3, t4, t5, t6, t7] = makeTables();

export function crc32(bytes: Uint8Array): number {
  let c = 0xffffffff;
  let i = 0;
  for (; i + STEP <= bytes.length; i += STEP)
    c =
      t7[(bytes[i] ^ c) & 0xff] ^
      t6[(bytes[i + 1] ^ (c >>> 8)) & 0xff] ^
      t5[(bytes[i + 2] ^ (c >>> 16)) & 0xff] ^
      t4[(bytes[i + 3] ^ (c >>> 24)) & 0xff] ^
      t3[bytes[i + 4]] ^
      t2[bytes[i + 5]] ^
      t1[bytes[i + 6]] ^
      t0[bytes[i + 7]];
  for (; i < bytes.length; i++) c = t0[(c ^ bytes[i]) & 0xff] ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}
