// A container: magic, header, columns. Checks before it believes: lengths, rows, checksums.

import { crc32 } from './crc32';
import { DataError, decodeColumn, type Column } from './columns';
import { completeHeader, type Header } from './header';

const MAGIC = 'PLCVIEW1';
const HEADER_AT = MAGIC.length + 4;

export interface Container {
  header: Header;
  columns: Record<string, Column>;
}

export function readContainer(bytes: Uint8Array): Container {
  if (bytes.length === 0) throw new DataError('the view data is empty');
  const magic = String.fromCharCode(...bytes.subarray(0, MAGIC.length));
  if (magic !== MAGIC) {
    if (magic.startsWith('PLCVIEW'))
      throw new DataError('the view data was written by a newer pellucid than this page; open it with that version');
    throw new DataError('this is not view data of pellucid');
  }
  if (bytes.length < HEADER_AT) throw new DataError('the view data ends before its header');
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(MAGIC.length, true);
  const start = HEADER_AT + length;
  if (start > bytes.length)
    throw new DataError(
      `the view data is cut off: its header has ${length} bytes, ${bytes.length - HEADER_AT} are there`,
    );
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(bytes.subarray(HEADER_AT, start)));
  } catch (error) {
    throw new DataError(`the header of the view data cannot be read: ${(error as Error).message}`);
  }
  const header = completeHeader(json);
  const columns: Record<string, Column> = {};
  const rows: Record<string, number> = {};
  for (const [name, info] of Object.entries(header.columns)) {
    const table = name.slice(0, name.indexOf('.'));
    rows[table] ??= info.rows;
    if (rows[table] !== info.rows)
      throw new DataError(`the column ${name} has ${info.rows} rows, others of its table ${rows[table]}`);
    const end = start + info.offset + info.bytes;
    if (!(info.offset >= 0 && info.bytes >= 0 && end <= bytes.length))
      throw new DataError(`the column ${name} lies outside the view data, which may be cut off`);
    const part = bytes.subarray(start + info.offset, end);
    if (info.rows > part.length)
      throw new DataError(`the column ${name} claims ${info.rows} rows in ${part.length} bytes`);
    if (info.crc32 !== undefined && crc32(part) !== info.crc32)
      throw new DataError(`the checksum of the column ${name} is wrong: the data is damaged`);
    columns[name] = decodeColumn(name, info, part);
  }
  return { header, columns };
}
