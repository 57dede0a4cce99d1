// cProfile's table for any range, by function, op, kind, line or module, with callers and callees.

import { figures, groupOf, links, type Figures, type Group, type Link } from '../model/calls';
import { tone, verdicts } from '../model/compare';
import type { Profile } from '../model/profile';
import type { Selection } from '../model/selection';
import { comparison, mask, option, range, select, selected } from '../state/store';
import { Choice, FamilyMark, Missing, program } from '../ui/common';
import { DataTable, reportSpec, type Column, type TableSpec } from '../ui/table';

const SELECTS: Record<Group, (p: Profile, id: number, name: string) => Selection> = {
  function: (_p, id) => ({ kind: 'fn', id: String(id) }),
  op: (_p, _id, name) => ({ kind: 'op', id: name }),
  signature: (_p, id) => ({ kind: 'sig', id: String(id) }),
  line: (_p, id) => ({ kind: 'line', id: String(id) }),
  module: (_p, id) => ({ kind: 'module', id: String(id) }),
};

function familyOf(p: Profile, group: Group, names: (id: number) => string): ((id: number) => string) | null {
  const byName = new Map(p.header.signatures.map((s) => [s.name, p.familyOf(s)]));
  if (group === 'function') return (id) => byName.get(p.functions[id].name) ?? 'other';
  if (group === 'op') return (id) => byName.get(names(id)) ?? 'other';
  if (group === 'signature') return (id) => p.familyOf(p.header.signatures[id]);
  return null;
}

export function callSpec(p: Profile, group: Group): TableSpec<Figures> {
  const rows = figures(p, group, range.value, mask.value);
  const { name } = groupOf(p, group);
  const family = familyOf(p, group, name);
  const all = verdicts(comparison.value);
  const verdictOf = (r: Figures) => all?.get(group === 'function' ? p.functions[r.id].name : name(r.id));
  const columns: Column<Figures>[] = [
    {
      key: 'name',
      title: group === 'function' ? 'function · file:line' : group,
      kind: 'name',
      value: (r) => name(r.id) || '(model)',
      mark: family ? (r) => <FamilyMark family={family(r.id)} /> : undefined,
    },
    { key: 'ncalls', title: 'ncalls', kind: 'count', value: (r) => r.calls, tip: 'Number of calls' },
    {
      key: 'tottime',
      title: 'tottime',
      kind: 'time',
      value: (r) => r.own,
      bar: true,
      tip: 'Time without what is called below',
    },
    { key: 'totper', title: 'percall', kind: 'time', value: (r) => r.own / r.calls, tip: 'tottime / ncalls' },
    {
      key: 'cumtime',
      title: 'cumtime',
      kind: 'time',
      value: (r) => r.cumulative,
      bar: true,
      tip: 'Time with everything called below; a call inside itself counts once',
    },
    {
      key: 'cumper',
      title: 'percall',
      kind: 'time',
      value: (r) => (r.primitive > 0 ? r.cumulative / r.primitive : null),
      tip: 'cumtime / calls that are not inside themselves',
    },
    {
      key: 'ceiling',
      title: '% of ceiling',
      kind: 'percent',
      value: (r) => (r.settled > 0 && r.ceiling > 0 ? r.ceiling / r.settled : null),
      tip: 'Without first calls of a kind',
    },
    { key: 'flops', title: 'FLOPs', kind: 'flops', value: (r) => r.flops },
    { key: 'bytes', title: 'bytes', kind: 'bytes', value: (r) => r.bytes, tip: 'Bytes that must move at least' },
  ];
  if (all)
    columns.push({
      key: 'change',
      title: 'B to A',
      kind: 'change',
      value: (r) => verdictOf(r)?.change ?? null,
      tone: (r) => tone(verdictOf(r)),
    });
  return {
    name: 'calls',
    label: 'Calls',
    rows,
    columns,
    sort: '-tottime',
    filter: true,
    select: (r) => SELECTS[group](p, r.id, name(r.id)),
    lit: (r) => r.lit,
  };
}

function chosenId(p: Profile, group: Group): number {
  const s = selected.value;
  if (group === 'function') {
    if (s.kind === 'fn') return Number(s.id);
    if (s.kind === 'call') return p.functionOf[Number(s.id)];
  }
  if (group === 'signature' && s.kind === 'sig') return Number(s.id);
  if (group === 'line' && s.kind === 'line') return Number(s.id);
  if (group === 'module' && s.kind === 'module') return Number(s.id);
  if (group === 'op' && s.kind === 'op') {
    const { count, name } = groupOf(p, group);
    for (let i = 0; i < count; i++) if (name(i) === s.id) return i;
  }
  return -1;
}

function Links({ p, group, id, which }: { p: Profile; group: Group; id: number; which: 'callers' | 'callees' }) {
  const { name } = groupOf(p, group);
  const title = (r: Link): string => (r.id >= 0 ? name(r.id) || '(model)' : 'the program');
  const spec: TableSpec<Link> = {
    name: which,
    label: which,
    rows: links(p, group, id, which, range.value),
    sort: '-cumtime',
    columns: [
      { key: 'name', title: which === 'callers' ? 'Called by' : 'Calls', kind: 'name', value: title },
      { key: 'ncalls', title: 'ncalls', kind: 'count', value: (r) => r.calls },
      { key: 'tottime', title: 'tottime', kind: 'time', value: (r) => r.own },
      { key: 'cumtime', title: 'cumtime', kind: 'time', value: (r) => r.cumulative, bar: true },
    ],
    select: (r) => (r.id >= 0 ? SELECTS[group](p, r.id, title(r)) : null),
  };
  return spec.rows.length > 0 ? (
    <DataTable spec={spec} />
  ) : (
    <p class="note">{which === 'callers' ? 'Nothing calls it.' : 'It calls nothing that was recorded.'}</p>
  );
}

function Recorded({ p }: { p: Profile }) {
  const counts = p.header.tables.counts?.[0];
  const samples = p.header.tables.samples?.[0];
  const table = counts?.rows.length ? counts : samples;
  if (!table || table.rows.length === 0)
    return (
      <Missing
        what="events"
        title="This profile has no calls"
        why="Nothing was recorded, or only samples."
        command={`pellucid profile -- ${program()}`}
      />
    );
  return (
    <>
      <p class="note">
        This recording has {table === counts ? 'counts of calls' : 'samples'} and no times of calls. Record them with{' '}
        <code>pellucid profile -- {program()}</code>
      </p>
      <DataTable spec={reportSpec('recorded', 'What was recorded', table, { filter: true })} />
    </>
  );
}

export function Calls({ p }: { p: Profile }) {
  if (p.n === 0)
    return (
      <>
        <h2>Calls</h2>
        <Recorded p={p} />
      </>
    );
  const group = option('calls.by', 'function') as Group;
  const id = chosenId(p, group);
  return (
    <>
      <h2>Calls</h2>
      <div class="tools">
        <Choice
          name="calls.by"
          fallback="function"
          label="by"
          values={{ function: 'function', op: 'op', signature: 'op and sizes', line: 'line', module: 'module' }}
        />
      </div>
      <DataTable key={group} spec={callSpec(p, group)} />
      {id >= 0 ? (
        <div class="columns">
          <section>
            <h3>Callers</h3>
            <Links p={p} group={group} id={id} which="callers" />
          </section>
          <section>
            <h3>Callees</h3>
            <Links p={p} group={group} id={id} which="callees" />
          </section>
        </div>
      ) : (
        <p class="note">
          Select a row to see who calls it and what it calls.{' '}
          <button type="button" class="link" onClick={() => select({ kind: 'fn', id: '0' })}>
            select the first function
          </button>
        </p>
      )}
    </>
  );
}
