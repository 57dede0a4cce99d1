// A table: sorted by a click on a heading, filtered, bars behind numbers, rows that select, CSV. Long
// tables show their first rows until asked for more.

import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { ReportTable, Value } from '../data/header';
import * as format from '../model/format';
import { selectionText, type Selection } from '../model/selection';
import { option, page, select, setOption } from '../state/store';
import { save } from './save';

export type Kind = 'text' | 'name' | 'time' | 'bytes' | 'count' | 'percent' | 'flops' | 'number' | 'change';

export interface Column<R> {
  key: string;
  title: string;
  kind: Kind;
  value: (row: R) => Value;
  /** A bar behind the number, as a share of the largest. */
  bar?: boolean;
  /** The hue before a name. */
  mark?: (row: R) => ComponentChildren;
  tone?: (row: R) => string;
  tip?: string;
}

export interface TableSpec<R> {
  name: string;
  label: string;
  rows: R[];
  columns: Column<R>[];
  /** "-time": by time, the largest first. */
  sort?: string;
  select?: (row: R) => Selection | null;
  lit?: (row: R) => boolean;
  open?: (row: R) => void;
  filter?: boolean;
}

const FIRST_ROWS = 100;
const NUMBERS = new Set<Kind>(['time', 'bytes', 'count', 'percent', 'flops', 'number', 'change']);

export function show(kind: Kind, value: Value): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return format.visible(value);
  switch (kind) {
    case 'time':
      return value === 0 ? '0' : format.time(value);
    case 'bytes':
      return value === 0 ? '0' : format.bytes(value);
    case 'count':
      return format.count(value);
    case 'percent':
      return format.percent(value);
    case 'flops':
      return value > 0 ? format.flops(value) : '0';
    case 'change':
      return format.change(value);
    default:
      return format.digits(value);
  }
}

export function csvOf<R>(spec: TableSpec<R>): string {
  const lines = [spec.columns.map((c) => format.csvCell(c.key)).join(',')];
  for (const row of spec.rows) lines.push(spec.columns.map((c) => format.csvCell(c.value(row))).join(','));
  return `${lines.join('\n')}\n`;
}

function order<R>(spec: TableSpec<R>, sort: string): R[] {
  const down = sort.startsWith('-');
  const column = spec.columns.find((c) => c.key === sort.replace(/^-/, ''));
  if (!column) return spec.rows;
  const rows = spec.rows.map((row) => ({ row, value: column.value(row) }));
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null ? 1 : 0) - (b.value === null ? 1 : 0);
    const less =
      typeof a.value === 'number' && typeof b.value === 'number'
        ? a.value - b.value
        : String(a.value) < String(b.value)
          ? -1
          : String(a.value) > String(b.value)
            ? 1
            : 0;
    return down ? -less : less;
  });
  return rows.map((r) => r.row);
}

export function DataTable<R>({ spec }: { spec: TableSpec<R> }) {
  const [limit, setLimit] = useState(FIRST_ROWS);
  const [filter, setFilter] = useState('');
  const [at, setAt] = useState(0);
  const body = useRef<HTMLTableSectionElement>(null);
  const sort = option(`${spec.name}.sort`, spec.sort ?? '');
  const text = filter.toLowerCase();
  const names = spec.columns.filter((c) => !NUMBERS.has(c.kind));
  const all = order(spec, sort).filter(
    (row) =>
      !text ||
      names.some((c) =>
        String(c.value(row) ?? '')
          .toLowerCase()
          .includes(text),
      ),
  );
  const rows = all.slice(0, limit);
  const largest = spec.columns.map((c) =>
    c.bar ? spec.rows.reduce((most, row) => Math.max(most, Math.abs(Number(c.value(row) ?? 0)) || 0), 0) : 0,
  );
  const chosen = selectionText(page.value.selection);
  const sortBy = (c: Column<R>): void => {
    const down = `-${c.key}`;
    setOption(`${spec.name}.sort`, sort === down ? c.key : sort === c.key ? down : NUMBERS.has(c.kind) ? down : c.key);
  };
  const go = (to: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setAt(next);
    (body.current?.rows[next] as HTMLElement | undefined)?.focus();
  };
  const onKey = (event: KeyboardEvent, row: R, i: number): void => {
    const acts: Record<string, () => void> = {
      ArrowDown: () => go(i + 1),
      ArrowUp: () => go(i - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      Enter: () => pick(row, true),
      ' ': () => pick(row, false),
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  };
  const pick = (row: R, open: boolean): void => {
    const next = spec.select?.(row);
    if (next) select(next);
    if (open || !next) spec.open?.(row);
  };
  const picks = Boolean(spec.select || spec.open);
  return (
    <div class="tablebox">
      {(spec.filter ?? spec.rows.length > 12) && (
        <div class="tabletools">
          <input
            type="search"
            placeholder="filter rows"
            aria-label={`Filter ${spec.label}`}
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
          <span class="dim">
            {format.count(all.length)} of {format.count(spec.rows.length)} rows
          </span>
          <button type="button" onClick={() => save(`${spec.name}.csv`, 'text/csv', csvOf(spec))}>
            CSV
          </button>
        </div>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label={spec.label}>
        <table
          role={picks ? 'grid' : undefined}
          aria-label={spec.label}
          aria-rowcount={picks ? all.length + 1 : undefined}
        >
          <thead>
            <tr>
              {spec.columns.map((c) => (
                <th
                  key={c.key}
                  scope="col"
                  class={NUMBERS.has(c.kind) ? 'number' : ''}
                  title={c.tip}
                  aria-sort={sort === c.key ? 'ascending' : sort === `-${c.key}` ? 'descending' : 'none'}
                >
                  <button type="button" onClick={() => sortBy(c)}>
                    {c.title}
                    {sort === c.key ? ' ▴' : sort === `-${c.key}` ? ' ▾' : ''}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody ref={body}>
            {rows.map((row, i) => {
              const selection = spec.select?.(row);
              const isChosen = Boolean(selection) && selectionText(selection as Selection) === chosen;
              return (
                <tr
                  key={i}
                  class={`${picks ? 'pick' : ''} ${spec.lit?.(row) ? 'lit' : ''}`}
                  tabIndex={picks ? (i === Math.min(at, rows.length - 1) ? 0 : -1) : undefined}
                  aria-selected={picks ? isChosen : undefined}
                  onClick={() => (setAt(i), pick(row, false))}
                  onDblClick={() => pick(row, true)}
                  onKeyDown={picks ? (event) => onKey(event, row, i) : undefined}
                >
                  {spec.columns.map((c, k) => {
                    const value = c.value(row);
                    const shown = show(c.kind, value);
                    return (
                      <td
                        key={c.key}
                        class={`${NUMBERS.has(c.kind) ? 'number' : c.kind === 'name' ? 'name mono' : 'text'} ${c.tone?.(row) ?? ''}`}
                        title={shown.length > 24 ? format.cut(shown, 400) : undefined}
                      >
                        {c.bar && typeof value === 'number' && largest[k] > 0 && (
                          <span class="fill" style={{ width: `${(100 * Math.abs(value)) / largest[k]}%` }} />
                        )}
                        <span class="value">
                          {c.mark?.(row)}
                          {format.cut(shown, 300)}
                        </span>
                      </td>
                    );
                  })}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {all.length > limit && (
        <button type="button" onClick={() => setLimit(limit * 10)}>
          show {format.count(Math.min(all.length, limit * 10) - limit)} more of {format.count(all.length)}
        </button>
      )}
    </div>
  );
}

/** How a column of a C++ report is shown, by its key. */
function kindOf(key: string, rows: ReportTable['rows']): Kind {
  const numeric = rows.some((r) => typeof r[key] === 'number');
  if (!numeric) return 'text';
  if (key.endsWith('seconds')) return 'time';
  if (key.endsWith('bytes')) return 'bytes';
  if (key === 'share' || key.endsWith('_share')) return 'percent';
  if (key === 'flops') return 'flops';
  return rows.every((r) => r[key] === null || Number.isInteger(r[key])) ? 'count' : 'number';
}

/** A table of the C++ report as it is. */
export function reportSpec(
  name: string,
  label: string,
  table: ReportTable,
  more: Partial<TableSpec<Record<string, Value>>> & { bars?: string[] } = {},
): TableSpec<Record<string, Value>> {
  const firstText = table.columns.find((c) => kindOf(c.key, table.rows) === 'text');
  return {
    name,
    label,
    rows: table.rows,
    // Bars drawn with letters are for terminals.
    columns: table.columns
      .filter((c) => c.key !== 'bar')
      .map((c) => {
        const kind = c.key === firstText?.key ? 'name' : kindOf(c.key, table.rows);
        const seconds = kind === 'time';
        return {
          key: c.key,
          title: c.title || c.key,
          kind,
          bar: more.bars?.includes(c.key),
          value: (row: Record<string, Value>) =>
            seconds && typeof row[c.key] === 'number' ? (row[c.key] as number) * 1e9 : (row[c.key] ?? null),
        };
      }),
    ...more,
  };
}
