// The rows of a comparison as `pellucid diff` gives them. Red is worse, blue is better, grey cannot
// tell; what only one side has is named so.

import type { CompareRow, Comparison, Header } from '../data/header';
import { tone } from '../model/compare';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { lineNamed, type Selection } from '../model/selection';
import { option } from '../state/store';
import { Choice } from './common';
import { DataTable, type TableSpec } from './table';

const MARKS: Record<string, string> = { better: '▼ ', worse: '▲ ', added: '+ ', removed: '− ', unclear: '', same: '' };
const TITLES: Record<string, string> = { op: 'op', line: 'line', module: 'module', memory: 'memory at the peak' };

function selectionOf(p: Profile, by: string, row: CompareRow): Selection | null {
  if (row.name === 'total' || row.rest) return null;
  if (by === 'op') return { kind: 'op', id: row.name };
  if (by === 'line') return lineNamed(p, row.name);
  const module = p.header.modules.findIndex((_, i) => p.modulePath(i) === row.name);
  return by === 'module' && module >= 0 ? { kind: 'module', id: String(module) } : null;
}

function compareSpec(p: Profile, by: string, c: Comparison): TableSpec<CompareRow> {
  const isBytes = by === 'memory';
  const kind = isBytes ? 'bytes' : 'time';
  const scaled = (v: number | null): number | null => (v === null || isBytes ? v : v * 1e9);
  return {
    name: 'compare',
    label: `Comparison of the two sides by ${by}`,
    rows: c.rows,
    columns: [
      { key: 'name', title: 'Name', kind: 'name', value: (r) => r.name },
      { key: 'first', title: 'A', kind, value: (r) => scaled(r.first) },
      { key: 'second', title: 'B', kind, value: (r) => scaled(r.second) },
      { key: 'change', title: 'Change', kind: 'change', value: (r) => r.change, tone: (r) => tone(r) },
      {
        key: 'interval',
        title: 'Interval',
        kind: 'text',
        value: (r) => (r.low == null || r.high == null ? null : `${format.change(r.low)} to ${format.change(r.high)}`),
      },
      {
        key: 'verdict',
        title: 'Verdict',
        kind: 'text',
        value: (r) => `${MARKS[tone(r)]}${r.verdict}`,
        tone: (r) => tone(r),
      },
    ],
    select: (r) => selectionOf(p, by, r),
  };
}

export function CompareTable({ p, header }: { p: Profile; header: Header }) {
  const all = header.compare ?? {};
  const known = Object.keys(TITLES).filter((by) => all[by]);
  if (known.length === 0) return null;
  const by = all[option('compare.by', known[0])] ? option('compare.by', known[0]) : known[0];
  const c = all[by];
  return (
    <>
      <h3>A compared with B</h3>
      {known.length > 1 && (
        <Choice
          name="compare.by"
          fallback={known[0]}
          label="by"
          values={Object.fromEntries(known.map((k) => [k, TITLES[k]]))}
        />
      )}
      <p class="note">
        {format.visible(c.what)}; intervals: {format.visible(c.scatter)}
      </p>
      {c.warnings.map((w) => (
        <p class="warning" key={w}>
          {format.visible(w)}
        </p>
      ))}
      <DataTable key={by} spec={compareSpec(p, by, c)} />
    </>
  );
}
