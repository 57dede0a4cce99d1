// The encodings of a column (docs/view-format.md): LEB128 varints, their zigzag and delta forms,
// doubles and bytes. A damaged column is refused with a sentence that names it.

export type Column = Float64Array | Int32Array | Uint8Array;

export interface ColumnInfo {
  rows: number;
  encoding: string;
  offset: number;
  bytes: number;
  crc32?: number;
}

export class DataError extends Error {}

/** Times, sizes and places in an order exceed 32 bits; everything else is an id or a small number. */
const WIDE = new Set([
  'begin',
  'end',
  'self',
  'allocated',
  'freed',
  'bytes',
  'at',
  'duration',
  'ceiling_ns',
  'stalled',
  'order',
  'freed_order',
  'count',
  'dispatch_ns',
]);

export function isWide(name: string): boolean {
  return WIDE.has(name.slice(name.indexOf('.') + 1));
}

const CONTINUES = 0x80;

/** The part of a varint beyond its first four bytes, of which `at` is the next. */
function readRest(name: string, bytes: Uint8Array, at: number, row: number): { value: number; at: number } {
  let value = 0;
  let scale = 2 ** 28;
  for (let i = at; ; i++) {
    if (scale > 2 ** 63) throw new DataError(`the column ${name} has a number of more than 64 bits in row ${row}`);
    if (i >= bytes.length) throw new DataError(`the column ${name} ends in row ${row}`);
    const byte = bytes[i];
    value += (byte & 0x7f) * scale;
    if (byte < CONTINUES) return { value, at: i + 1 };
    scale *= 128;
  }
}

function decodeVarints(name: string, bytes: Uint8Array, rows: number, signed: boolean, delta: boolean): Column {
  const out = isWide(name) ? new Float64Array(rows) : new Int32Array(rows);
  const length = bytes.length;
  let at = 0;
  let before = 0;
  for (let row = 0; row < rows; row++) {
    if (at >= length) throw new DataError(`the column ${name} ends in row ${row} of ${rows}`);
    // Nearly all numbers have at most four bytes, which fit into the integers of a machine.
    let byte = bytes[at++];
    let value = byte & 0x7f;
    if (byte >= CONTINUES && at < length) {
      byte = bytes[at++];
      value |= (byte & 0x7f) << 7;
      if (byte >= CONTINUES && at < length) {
        byte = bytes[at++];
        value |= (byte & 0x7f) << 14;
        if (byte >= CONTINUES && at < length) {
          byte = bytes[at++];
          value |= (byte & 0x7f) << 21;
        }
      }
    }
    if (byte >= CONTINUES) {
      const rest = readRest(name, bytes, at, row);
      at = rest.at;
      value += rest.value;
      if (signed) value = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    } else if (signed) value = (value >>> 1) ^ -(value & 1);
    if (delta) {
      value += before;
      before = value;
    }
    out[row] = value;
  }
  if (at !== length) throw new DataError(`the column ${name} is longer than its ${rows} rows`);
  return out;
}

export function decodeColumn(name: string, info: ColumnInfo, bytes: Uint8Array): Column {
  const { rows } = info;
  switch (info.encoding) {
    case 'varint':
      return decodeVarints(name, bytes, rows, false, false);
    case 'zigzag':
      return decodeVarints(name, bytes, rows, true, false);
    case 'delta':
      return decodeVarints(name, bytes, rows, true, true);
    case 'u8':
      if (bytes.length !== rows) throw new DataError(`the column ${name} has ${bytes.length} bytes for ${rows} rows`);
      return bytes.slice();
    case 'f64': {
      if (bytes.length !== rows * 8)
        throw new DataError(`the column ${name} has ${bytes.length} bytes for ${rows} doubles`);
      const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      const out = new Float64Array(rows);
      for (let i = 0; i < rows; i++) out[i] = view.getFloat64(8 * i, true);
      return out;
    }
    default:
      throw new DataError(`the column ${name} has the encoding '${info.encoding}', which this page does not know`);
  }
}
