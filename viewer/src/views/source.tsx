// The program's source with time, calls, FLOPs and bytes beside each line. Selecting a line lights its
// calls in every view, their backward nodes and the updates of their parameters included.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { tokenLines } from '../model/code';
import * as format from '../model/format';
import { lineFigures, type LineFigures } from '../model/lines';
import { baseName, type Profile } from '../model/profile';
import { memory, option, page, range, select, selected, setOption } from '../state/store';
import { Check, Missing, program } from '../ui/common';
import { DataTable, type TableSpec } from '../ui/table';

/** Lines around one with figures that stay when a long file is folded. */
const AROUND = 6;
const LONG_FILE = 600;

interface FileSum {
  file: string;
  time: number;
  text: string | undefined;
  changed: boolean;
}

function files(p: Profile, figures: LineFigures[]): FileSum[] {
  const sums = new Map<string, FileSum>();
  for (const s of p.header.sources)
    sums.set(s.file, { file: s.file, time: 0, text: s.text, changed: s.changed === true });
  for (const f of figures) {
    if (f.calls === 0 && f.time === 0) continue;
    const file = p.lines[f.line].file;
    let sum = sums.get(file);
    if (!sum) sums.set(file, (sum = { file, time: 0, text: undefined, changed: false }));
    sum.time += f.time;
  }
  return [...sums.values()].sort((a, b) => b.time - a.time);
}

function lineSpec(p: Profile, rows: LineFigures[]): TableSpec<LineFigures> {
  return {
    name: 'lines',
    label: 'Lines with their figures',
    rows: rows.filter((r) => r.calls > 0 || r.time > 0),
    sort: '-time',
    filter: true,
    columns: [
      { key: 'line', title: 'line', kind: 'name', value: (r) => `${p.lineName(r.line)} ${p.lines[r.line].function}` },
      { key: 'time', title: 'time', kind: 'time', value: (r) => r.time, bar: true },
      { key: 'forward', title: 'forward', kind: 'time', value: (r) => r.forward },
      { key: 'backward', title: 'backward', kind: 'time', value: (r) => r.backward },
      { key: 'update', title: 'update', kind: 'time', value: (r) => r.update },
      { key: 'ops', title: 'ops', kind: 'count', value: (r) => r.calls },
      { key: 'flops', title: 'FLOPs', kind: 'flops', value: (r) => r.flops },
      { key: 'bytes', title: 'bytes', kind: 'bytes', value: (r) => r.bytes },
      { key: 'atpeak', title: 'at the peak', kind: 'bytes', value: (r) => r.atPeak },
    ],
    select: (r) => ({ kind: 'line', id: String(r.line) }),
  };
}

function Code({ p, file, figures }: { p: Profile; file: FileSum; figures: LineFigures[] }) {
  const lines = useMemo(() => tokenLines(file.file, file.text ?? ''), [file.file, file.text]);
  const byLine = new Map<number, LineFigures>();
  for (const f of figures)
    if (p.lines[f.line].file === file.file && (f.calls > 0 || f.time > 0)) byLine.set(p.lines[f.line].line, f);
  const most = Math.max(1, ...[...byLine.values()].map((f) => f.time));
  const whole = option('source.all', '') === '1' || lines.length <= LONG_FILE;
  const near = (n: number): boolean => {
    for (let k = n - AROUND; k <= n + AROUND; k++) if (byLine.has(k)) return true;
    return false;
  };
  const chosen = selected.value;
  const box = useRef<HTMLDivElement>(null);
  // The chosen line, else the first with figures, is in sight when a file is opened.
  useEffect(() => {
    const row = box.current?.querySelector<HTMLElement>('tr.lit') ?? box.current?.querySelector<HTMLElement>('tr.pick');
    if (box.current && row) box.current.scrollTop = Math.max(0, row.offsetTop - box.current.clientHeight / 3);
  }, [file.file, whole]);
  const rows: (number | null)[] = [];
  for (let n = 1; n <= lines.length; n++)
    if (whole || near(n)) rows.push(n);
    else if (rows[rows.length - 1] !== null) rows.push(null);
  return (
    <div class="code" ref={box} role="region" aria-label={`Source of ${baseName(file.file)}`} tabIndex={0}>
      <table aria-label={`Source of ${baseName(file.file)}`}>
        <colgroup>
          <col class="c-line" />
          <col class="c-figure" />
          <col class="c-figure" />
          <col class="c-figure" />
          <col class="c-figure" />
          <col />
        </colgroup>
        <thead>
          <tr>
            <th class="number" scope="col">
              line
            </th>
            <th class="number" scope="col">
              time
            </th>
            <th class="number" scope="col">
              ops
            </th>
            <th class="number" scope="col">
              FLOPs
            </th>
            <th class="number" scope="col">
              at peak
            </th>
            <th scope="col">{baseName(file.file)}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((n, i) => {
            if (n === null)
              return (
                <tr key={`gap${i}`}>
                  <td class="dim number">⋮</td>
                  <td colSpan={5} />
                </tr>
              );
            const f = byLine.get(n);
            const isChosen = f !== undefined && chosen.kind === 'line' && Number(chosen.id) === f.line;
            return (
              <tr
                key={n}
                class={`${f ? 'pick' : ''} ${isChosen ? 'lit' : ''}`}
                aria-current={isChosen ? 'true' : undefined}
                onClick={() => f && select({ kind: 'line', id: String(f.line) })}
              >
                <td class="number dim">
                  {f ? (
                    <button type="button" class="link" aria-label={`Select line ${n}`}>
                      {n}
                    </button>
                  ) : (
                    n
                  )}
                </td>
                <td class="number">
                  {f && (
                    <>
                      <span class="fill" style={{ width: `${(100 * f.time) / most}%` }} />
                      <span class="value">{format.time(f.time)}</span>
                    </>
                  )}
                </td>
                <td class="number">{f ? format.count(f.calls) : ''}</td>
                <td class="number">{f && f.flops > 0 ? format.flops(f.flops).replace('FLOPs', '') : ''}</td>
                <td class="number">{f && f.atPeak > 0 ? format.bytes(f.atPeak) : ''}</td>
                <td class="source">
                  {lines[n - 1].map((t, k) =>
                    t.scope ? (
                      <span key={k} class={`tok-${t.scope}`}>
                        {t.text}
                      </span>
                    ) : (
                      t.text
                    ),
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

export function Source({ p }: { p: Profile }) {
  const m = memory.value;
  const figures = useMemo(
    () => lineFigures(p, range.value, m && p.blocks > 0 ? m.alive(m.peak.place) : []),
    [p, range.value, m],
  );
  const all = useMemo(() => files(p, figures), [p, figures]);
  if (all.length === 0)
    return (
      <>
        <h2>Source</h2>
        <Missing
          what="events"
          title="This profile has no lines"
          why="No recorded op has a line of the program; build the program with -g."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  const s = page.value.selection;
  const byLine =
    s.kind === 'line' && p.lines[Number(s.id)] ? all.findIndex((f) => f.file === p.lines[Number(s.id)].file) : -1;
  const asked = all.findIndex((f) => f.file === option('source.file', ''));
  const file = all[asked >= 0 ? asked : byLine >= 0 ? byLine : 0];
  const lines = figures.filter((f) => p.lines[f.line].file === file.file);
  return (
    <>
      <h2>Source</h2>
      <div class="tools">
        <label>
          file
          <select
            aria-label="File"
            value={file.file}
            onChange={(e) => setOption('source.file', e.currentTarget.value, true)}
          >
            {all.map((f) => (
              <option key={f.file} value={f.file}>
                {format.visible(format.cut(baseName(f.file), 60))} · {format.time(f.time)}
              </option>
            ))}
          </select>
        </label>
        {file.text && file.text.split('\n').length > LONG_FILE && <Check name="source.all" label="all lines" />}
        <span class="dim mono">{format.visible(format.cut(file.file, 160))}</span>
      </div>
      {file.changed && (
        <p class="warning">
          This file has changed since the recording: figures may stand beside other lines than theirs.
        </p>
      )}
      {file.text !== undefined ? (
        <Code p={p} file={file} figures={figures} />
      ) : (
        <Missing
          what="sources"
          title="The text of this file is not in the profile"
          why="It was recorded without the program's source files, or the file belongs to the system."
          command={`pellucid profile -- ${program()}`}
        />
      )}
      <h3>{file.text !== undefined ? 'The same as a table' : 'Its lines'}</h3>
      <DataTable spec={lineSpec(p, lines)} />
    </>
  );
}
