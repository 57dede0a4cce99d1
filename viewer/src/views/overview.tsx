// What the run is, how long it took, what dominates, what to change. Every row leads on.

import type { ReportTable, Value } from '../data/header';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { lineNamed } from '../model/selection';
import { comparison } from '../state/store';
import { FamilyMark } from '../ui/common';
import { CompareTable } from '../ui/compare';
import { reportSpec, DataTable, type TableSpec } from '../ui/table';

const tableNamed = (p: Profile, report: string, name: string): ReportTable | undefined =>
  p.header.tables[report]?.find((t) => t.name === name);

function Cards({ p }: { p: Profile }) {
  const t = p.header.totals;
  const m = p.header.machine;
  const cards: [string, string][] = [];
  const add = (name: string, value: number | undefined, text: (v: number) => string): void => {
    if (value !== undefined && Number.isFinite(value) && value > 0) cards.push([text(value), name]);
  };
  add('run', t.duration_ns, format.time);
  add('at best', t.at_best_ns, format.time);
  add('ops', t.ops, format.count);
  add('FLOPs', t.flops, (v) => format.flops(v).replace('FLOPs', ''));
  add('moved at least', t.bytes, format.bytes);
  add('peak memory', t.peak_bytes, format.bytes);
  add('compute ceiling', m.flops, (v) => format.rate(v, 'FLOP'));
  add('memory ceiling', m.bandwidth?.memory, (v) => format.rate(v, 'B'));
  add('threads', m.threads, format.count);
  add('cost of recording', t.recording_ns, (v) => format.time(v));
  return (
    <div class="cards">
      {cards.map(([value, name]) => (
        <div class="card" key={name}>
          <b>{value}</b>
          <span>{name}</span>
        </div>
      ))}
    </div>
  );
}

type Row = Record<string, Value>;

export function Overview({ p }: { p: Profile }) {
  const parts: TableSpec<{ name: string; ns: number; share: number }> = {
    name: 'parts',
    label: 'Where the time goes',
    rows: p.header.parts,
    columns: [
      { key: 'part', title: 'Where the time goes', kind: 'name', value: (r) => r.name },
      { key: 'ns', title: 'Time', kind: 'time', value: (r) => r.ns },
      { key: 'share', title: 'Share', kind: 'percent', value: (r) => r.share, bar: true },
    ],
    select: (r) => ({ kind: 'part', id: r.name }),
  };
  const ops = tableNamed(p, 'overview', 'top-ops');
  const lines = tableNamed(p, 'overview', 'top-lines');
  const advice = p.header.tables.advice?.[0] ?? tableNamed(p, 'overview', 'advice');
  const families = new Map(p.header.signatures.map((s) => [s.name, s.family]));
  const opSpec =
    ops &&
    reportSpec('topops', 'Ops that take the most time', ops, {
      bars: ['share'],
      select: (r: Row) => ({ kind: 'op', id: String(r.name) }),
    });
  if (opSpec) {
    const name = opSpec.columns.find((c) => c.key === 'name');
    if (name) name.mark = (r: Row) => <FamilyMark family={families.get(String(r.name)) ?? 'other'} />;
  }
  const footing = tableNamed(p, 'overview', 'overview')?.footing ?? '';
  return (
    <>
      <h2>Overview</h2>
      {p.header.warnings.map((w) => (
        <p class="warning" key={w}>
          {format.visible(w)}
        </p>
      ))}
      <Cards p={p} />
      {comparison.value && <CompareTable p={p} header={comparison.value} />}
      {advice && advice.rows.length > 0 && (
        <>
          <h3>What to change</h3>
          {advice.rows.map((row, i) => (
            <div class="advice" key={i}>
              <b>{format.visible(String(row.advice ?? ''))}</b>{' '}
              <span class="dim">
                {typeof row.share === 'number' ? `about ${format.percent(row.share)} of the ${row.of ?? 'time'}: ` : ''}
                {format.visible(String(row.because ?? ''))}
              </span>
            </div>
          ))}
        </>
      )}
      <div class="columns">
        {parts.rows.length > 0 && (
          <section>
            <h3>Where the time goes</h3>
            <DataTable spec={parts} />
          </section>
        )}
        {lines && (
          <section>
            <h3>Lines</h3>
            <DataTable
              spec={reportSpec('toplines', 'Lines that take the most time', lines, {
                bars: ['share'],
                select: (r: Row) => lineNamed(p, String(r.line)),
              })}
            />
          </section>
        )}
      </div>
      {opSpec && (
        <>
          <h3>Ops</h3>
          <DataTable spec={opSpec} />
        </>
      )}
      <h3>The recording</h3>
      {footing
        .split('\n')
        .filter((line) => line && !line.startsWith('warning:'))
        .map((line) => (
          <p class="note" key={line}>
            {format.visible(line)}
          </p>
        ))}
      {p.header.notes.map((n) => (
        <p class="note" key={n}>
          {format.visible(n)}
        </p>
      ))}
      <p class="note">
        {[p.header.run.program, p.header.run.started, p.header.pellucid && `pellucid ${p.header.pellucid}`]
          .filter(Boolean)
          .map((x) => format.visible(format.cut(String(x), 300)))
          .join(' · ')}
      </p>
    </>
  );
}
