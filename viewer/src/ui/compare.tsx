// The rows of a comparison as `pellucid diff` gives them. Red is worse, blue is better, grey cannot
// tell; what only one side has is named so.

import type { CompareRow, Header } from '../data/header';
import { tone } from '../model/compare';
import * as format from '../model/format';
import { DataTable, type TableSpec } from './table';

export function compareSpec(header: Header): TableSpec<CompareRow> {
  const isBytes = /byte|memory/.test(header.compare?.what ?? '');
  const scale = isBytes ? 1 : 1e9;
  const kind = isBytes ? 'bytes' : 'time';
  const scaled = (v: number | null | undefined): number | null => (v === null || v === undefined ? null : v * scale);
  return {
    name: 'compare',
    label: 'Comparison of the two sides',
    rows: header.compare?.rows ?? [],
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
        value: (r) =>
          `${{ better: '▼ ', worse: '▲ ', added: '+ ', removed: '− ', unclear: '', same: '' }[tone(r)]}${r.verdict}`,
        tone: (r) => tone(r),
      },
    ],
    select: (r) => (r.name === 'total' || r.rest ? null : { kind: 'op', id: r.name }),
  };
}

export function CompareTable({ header }: { header: Header }) {
  const c = header.compare;
  if (!c) return null;
  return (
    <>
      <h3>A compared with B</h3>
      <p class="note">
        {format.visible(c.what)}. {format.visible(c.scatter)}
      </p>
      {c.warnings.map((w) => (
        <p class="warning" key={w}>
          {format.visible(w)}
        </p>
      ))}
      <DataTable spec={compareSpec(header)} />
    </>
  );
}
