// Compares what the page sums with the tables of `pellucid report`, which a container holds.
// Usage: node against_report.mjs CONTAINER…; prints each difference and exits with 1 if there is one.

import { readFileSync } from 'node:fs';
import { readContainer } from '../src/data/container';
import type { ReportTable, Value } from '../src/data/header';
import { figures, groupOf } from '../src/model/calls';
import { layers } from '../src/model/layers';
import { lineFigures } from '../src/model/lines';
import { blockTree, MemoryUse } from '../src/model/memory';
import { prepare, Profile } from '../src/model/profile';

let compared = 0;
const differences: string[] = [];

function same(what: string, page: number, report: Value | undefined): void {
  compared++;
  const theirs = Number(report);
  // Seconds are printed from whole nanoseconds; sums of doubles differ in their last digits.
  if (!(Math.abs(page - theirs) <= 1e-9 * Math.max(1, Math.abs(theirs))))
    differences.push(`${what}: the page has ${page}, the report ${report}`);
}

const table = (p: Profile, report: string, name: string): ReportTable | undefined =>
  p.header.tables[report]?.find((t) => t.name === name);

function compareCalls(p: Profile): void {
  const rows = new Map<string, { calls: number; own: number; cumulative: number }>();
  for (const f of figures(p, 'function', null, null)) {
    const { name, line } = p.functions[f.id];
    const key = line >= 0 && p.lineName(line) ? `${p.lineName(line)}(${name})` : name;
    rows.set(key, f);
  }
  for (const r of table(p, 'cprofile', 'cprofile')?.rows ?? []) {
    const f = rows.get(String(r.function));
    if (!f) continue;
    same(`tottime of ${r.function}`, f.own / 1e9, r.tottime_seconds);
    same(`cumtime of ${r.function}`, f.cumulative / 1e9, r.cumtime_seconds);
  }
  const { name } = groupOf(p, 'op');
  const byOp = new Map(figures(p, 'op', null, null).map((f) => [name(f.id), f]));
  for (const r of table(p, 'overview', 'top-ops')?.rows ?? []) {
    const f = byOp.get(String(r.name));
    same(`calls of ${r.name}`, f?.calls ?? 0, r.calls);
    same(`time of ${r.name}`, (f?.own ?? 0) / 1e9, r.seconds);
  }
}

function compareMemory(p: Profile): number[] {
  const m = new MemoryUse(p);
  const alive = m.alive(m.peak.place);
  same('the peak', m.peak.bytes, p.header.totals.peak_bytes);
  const categories = new Map(blockTree(p, alive).children.map((c) => [c.name, c.bytes]));
  for (const r of table(p, 'peak', 'peak-by-category')?.rows ?? [])
    if (categories.has(String(r.name)))
      same(`${r.name} at the peak`, categories.get(String(r.name)) as number, r.bytes);
  const byLine = new Map<string, number>();
  for (const l of lineFigures(p, null, alive))
    byLine.set(p.lineName(l.line), (byLine.get(p.lineName(l.line)) ?? 0) + l.atPeak);
  for (const r of table(p, 'peak', 'peak-by-line')?.rows ?? [])
    if (byLine.has(String(r.name))) same(`${r.name} at the peak`, byLine.get(String(r.name)) as number, r.bytes);
  return alive;
}

function compareModules(p: Profile, alive: number[]): void {
  const rows = table(p, 'modules', 'modules')?.rows ?? [];
  const first = layers(p, null, alive).find((l) => l.depth === 0);
  if (!first || !rows[0]) return;
  same('forward of the model', first.forward / 1e9, rows[0].forward_seconds);
  same('backward of the model', first.backward / 1e9, rows[0].backward_seconds);
  same('FLOPs of the model', first.flops, rows[0].flops);
  same('the model at the peak', first.atPeak, rows[0].peak_bytes);
}

for (const file of process.argv.slice(2)) {
  const p = new Profile(prepare(readContainer(new Uint8Array(readFileSync(file)))));
  same(
    'the sum of the parts',
    p.header.parts.reduce((sum, part) => sum + part.ns, 0),
    p.header.totals.total_ns,
  );
  compareCalls(p);
  compareModules(p, compareMemory(p));
}
for (const d of differences) console.error(d);
if (compared < 20) console.error(`only ${compared} numbers were compared`);
console.log(`${compared} numbers compared with the reports, ${differences.length} differ`);
process.exit(differences.length > 0 || compared < 20 ? 1 : 0);
