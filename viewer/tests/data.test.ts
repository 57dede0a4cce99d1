// Containers: what is written is read; what is damaged is refused with a sentence, never with a hang.

import assert from 'node:assert/strict';
import test from 'node:test';
import { deflateRawSync } from 'node:zlib';
import { DataError, decodeColumn } from '../src/data/columns';
import { crc32 } from '../src/data/crc32';
import { readContainer } from '../src/data/container';
import { inflateRaw, fromBase64 } from '../src/data/inflate';
import { encodeColumn, makeContainer, profileContainer } from './fixture';

const CASES: [string, number[]][] = [
  ['delta', [0, 5, 3, 2 ** 40, 2 ** 40 + 1, -1]],
  ['zigzag', [0, -1, 1, -(2 ** 45), 2 ** 52]],
  ['varint', [0, 127, 128, 2 ** 53 - 1]],
  ['f64', [0.5, -1e300, 3]],
  ['u8', [0, 255, 7]],
];

for (const [encoding, values] of CASES)
  test(`a column of ${encoding} is read as it was written`, () => {
    const bytes = encodeColumn(values, encoding);
    const info = { rows: values.length, encoding, offset: 0, bytes: bytes.length };
    assert.deepEqual(Array.from(decodeColumn('event.begin', info, bytes)), values);
  });

test('ids are 32-bit, times are doubles', () => {
  const info = { rows: 1, encoding: 'varint', offset: 0, bytes: 1 };
  assert.ok(decodeColumn('event.parent', info, Uint8Array.of(3)) instanceof Int32Array);
  assert.ok(decodeColumn('event.end', info, Uint8Array.of(3)) instanceof Float64Array);
});

test('a column that is too short, too long or of an unknown encoding is refused', () => {
  const info = { rows: 2, encoding: 'varint', offset: 0, bytes: 1 };
  assert.throws(() => decodeColumn('a.b', info, Uint8Array.of(1)), /the column a.b ends in row 1 of 2/);
  assert.throws(() => decodeColumn('a.b', info, Uint8Array.of(1, 2, 3)), /longer than its 2 rows/);
  assert.throws(() => decodeColumn('a.b', info, new Uint8Array(12).fill(255)), /more than 64 bits/);
  assert.throws(
    () => decodeColumn('a.b', { ...info, encoding: 'zstd' }, Uint8Array.of(1, 2)),
    /'zstd', which this page does not know/,
  );
});

test('CRC-32 is that of zlib, for lengths around a step of eight bytes', () => {
  const bytes = new TextEncoder().encode('abcdefghij');
  const known: [number, number][] = [
    [0, 0],
    [1, 0xe8b7be43],
    [7, 0x312a6aa6],
    [8, 0xaeef2a50],
    [9, 0x8da988af],
    [10, 0x3981703a],
  ];
  for (const [length, value] of known) assert.equal(crc32(bytes.subarray(0, length)), value, `${length} bytes`);
  assert.equal(crc32(Uint8Array.from({ length: 768 }, (_, i) => i % 256)), 0xb0c0df2a);
});

test('foreign, newer, empty and cut files are named as such', () => {
  const whole = profileContainer({ steps: 2 });
  assert.throws(() => readContainer(new Uint8Array()), /empty/);
  assert.throws(() => readContainer(new TextEncoder().encode('SQLite format 3')), /not view data/);
  assert.throws(() => readContainer(new TextEncoder().encode('PLCVIEW9 and more')), /newer pellucid/);
  assert.throws(() => readContainer(whole.subarray(0, 400)), /cut off/);
  assert.throws(() => readContainer(whole.subarray(0, whole.length - 9)), DataError);
});

test('a changed byte of a column is found by its checksum', () => {
  const bytes = profileContainer({ steps: 2 });
  bytes[bytes.length - 1] ^= 1;
  assert.throws(() => readContainer(bytes), /checksum of the column/);
});

test('a header that lies about rows costs no memory', () => {
  const bytes = makeContainer({}, { 'event.begin': [[1, 2], 'delta'] });
  const text = new TextDecoder().decode(bytes).replace('"rows":2', '"rows":9');
  assert.throws(() => readContainer(new TextEncoder().encode(text)), /claims 9 rows in 2 bytes/);
});

test('2,000 damaged containers are read or refused, never anything else', () => {
  const whole = profileContainer({ steps: 2, hostile: true });
  let state = 12345;
  const random = (): number => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
  for (let i = 0; i < 2000; i++) {
    const bytes = whole.slice(0, random() < 0.3 ? Math.floor(random() * whole.length) : whole.length);
    for (let k = 0; k < 1 + random() * 4; k++)
      bytes[Math.floor(random() * Math.min(bytes.length, random() < 0.5 ? 600 : bytes.length))] = random() * 256;
    try {
      readContainer(bytes);
    } catch (error) {
      assert.ok(error instanceof DataError, `${(error as Error).name}: ${(error as Error).message}`);
    }
  }
});

const packed = (text: string): string => deflateRawSync(Buffer.from(text)).toString('base64');

test('base64 and deflate as the HTML file holds them', async () => {
  assert.throws(() => fromBase64('<b>'), /not valid base64/);
  const unpacked = inflateRaw(fromBase64(` ${packed('columns')}\n`));
  // Node 18 has the class without this format, as older browsers do.
  if (Number(process.versions.node.split('.')[0]) < 20) return assert.rejects(unpacked, /no DecompressionStream/);
  assert.equal(new TextDecoder().decode(await unpacked), 'columns');
  await assert.rejects(() => inflateRaw(Uint8Array.of(255, 255, 255)), /damaged or cut off/);
});
