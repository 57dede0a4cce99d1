// The selection panel: whatever is selected, in the same order: what, how often, time, work, share of
// the ceiling, where it comes from, what it keeps alive, what it would gain.

import { tone, verdicts } from '../model/compare';
import * as format from '../model/format';
import { nodeOf, type Selection } from '../model/selection';
import { largest, summarize, type Summary } from '../model/summary';
import { shapes } from '../model/tree';
import { clear, comparison, go, page, panelOpen, profile, range, selected } from '../state/store';
import type { Profile } from '../model/profile';
import { FamilyMark } from './common';
import { Block, Call, GraphNodeFacts, ModuleFacts, Part } from './panel_facts';
import { Rows, Spark, To } from './panel_parts';
function title(p: Profile, s: Selection): { title: string; what: string; family: string } {
  const id = Number(s.id);
  switch (s.kind) {
    case 'op':
      return {
        title: s.id,
        what: 'op, all sizes',
        family: p.header.signatures.find((x) => x.name === s.id)?.family ?? 'other',
      };
    case 'sig':
      return {
        title: p.header.signatures[id].name,
        what: `call kind ${shapes(p, id)}`,
        family: p.header.signatures[id].family,
      };
    case 'call':
      return {
        title: p.name(id),
        what: `call ${format.count(id)} at ${format.time(p.event.begin[id])}`,
        family: p.family(id),
      };
    case 'fn':
      return {
        title: p.functions[id].name,
        what: `function at ${p.lineName(p.functions[id].line) || 'no line'}`,
        family: '',
      };
    case 'line':
      return { title: p.lineName(id), what: `line in ${p.lines[id].function}`, family: '' };
    case 'module':
      return { title: p.moduleLabel(id), what: `module ${p.header.modules[id].type}`, family: '' };
    case 'block':
      return {
        title: `block of ${format.bytes(p.allocation.bytes[id])}`,
        what: p.header.categories[p.allocation.category[id]] ?? 'memory',
        family: '',
      };
    case 'step':
      return { title: `step ${id}`, what: 'one step of the run', family: '' };
    default:
      return { title: s.id, what: s.kind, family: '' };
  }
}

function Verdict({ name }: { name: string }) {
  const row = verdicts(comparison.value)?.get(name);
  if (!row) return null;
  const t = tone(row);
  return (
    <>
      <h3>Compared</h3>
      <p class={t}>
        {format.change(row.change)} {row.verdict}
        {row.low !== null &&
          row.low !== undefined &&
          row.high !== undefined &&
          ` (${format.change(row.low)} to ${format.change(row.high)})`}
      </p>
    </>
  );
}

function Work({ p, s, sum }: { p: Profile; s: Selection; sum: Summary }) {
  const whole = Number(p.header.totals.total_ns ?? 0) || p.duration;
  const rateTime = sum.settled || sum.time;
  const site = largest(sum.sites);
  const module = largest(sum.modules);
  const gain = sum.settled - sum.ceiling;
  const name =
    s.kind === 'op'
      ? s.id
      : s.kind === 'sig'
        ? p.header.signatures[Number(s.id)].name
        : s.kind === 'call'
          ? p.name(Number(s.id))
          : '';
  return (
    <>
      <h3>How often</h3>
      <Rows
        rows={[
          ['calls', format.count(sum.calls)],
          ['in steps', sum.steps > 0 ? format.count(sum.steps) : null],
        ]}
      />
      <h3>Time</h3>
      <Rows
        rows={[
          ['its own', `${format.time(sum.time)} · ${format.percent(sum.time / whole)}`],
          ['cumulative', sum.cumulative > sum.time * 1.001 ? format.time(sum.cumulative) : null],
          ['median call', sum.calls > 1 ? format.time(sum.median) : null],
          ['forward', sum.phases[0] > 0 && sum.phases[1] + sum.phases[2] > 0 ? format.time(sum.phases[0]) : null],
          ['backward', sum.phases[1] > 0 ? format.time(sum.phases[1]) : null],
          ['update', sum.phases[2] > 0 ? format.time(sum.phases[2]) : null],
          ['held up', sum.stalled > 0 ? format.time(sum.stalled) : null],
          ['first calls', sum.first > 0 && s.kind !== 'call' ? format.time(sum.first) : null],
        ]}
      />
      <Spark values={sum.durations} />
      {sum.flops + sum.bytes > 0 && (
        <>
          <h3>Work</h3>
          <Rows
            rows={[
              ['FLOPs', sum.flops > 0 ? format.flops(sum.flops) : null],
              ['moves at least', sum.bytes > 0 ? format.bytes(sum.bytes) : null],
              ['rate', sum.flops > 0 ? format.rate((sum.flops * 1e9) / Math.max(1, sum.time), 'FLOP') : null],
              ['share of ceiling', sum.settled > 0 ? format.percent(sum.ceiling / rateTime) : null],
              [
                'bound',
                s.kind === 'sig'
                  ? p.header.signatures[Number(s.id)].bound
                  : s.kind === 'call'
                    ? (p.signature(Number(s.id))?.bound ?? '')
                    : null,
              ],
            ]}
          />
        </>
      )}
      <h3>From</h3>
      <Rows
        rows={[
          [
            'line',
            site >= 0 && s.kind !== 'line' ? (
              <To to={{ kind: 'line', id: String(p.lineOf[site]) }}>{p.lineName(p.lineOf[site])}</To>
            ) : null,
          ],
          [
            'in',
            site >= 0 ? (
              <span class="mono">{format.cut(format.visible(p.header.sites[site].function), 80)}</span>
            ) : null,
          ],
          [
            'module',
            module >= 0 && s.kind !== 'module' ? (
              <To to={{ kind: 'module', id: String(module) }}>{p.moduleLabel(module)}</To>
            ) : null,
          ],
          ['op', s.kind === 'sig' || s.kind === 'call' ? <To to={{ kind: 'op', id: name }}>{name}</To> : null],
        ]}
      />
      {s.kind === 'call' && <Call p={p} call={Number(s.id)} />}
      {s.kind === 'module' && <ModuleFacts p={p} module={Number(s.id)} />}
      {sum.allocated > 0 && (
        <>
          <h3>Memory</h3>
          <Rows rows={[['allocated', format.bytes(sum.allocated)]]} />
        </>
      )}
      {gain > 0 && (
        <>
          <h3>At best</h3>
          <p>
            −{format.time(gain)} ({format.percent(gain / whole)} of the run) at the ceiling{' '}
            {name && (
              <button
                type="button"
                onClick={() =>
                  go({
                    view: 'roofline',
                    options: { ...page.value.options, 'roofline.drag': `${name}=1`, 'roofline.show': 'ceiling' },
                  })
                }
              >
                try
              </button>
            )}
          </p>
        </>
      )}
      <Verdict name={name || (s.kind === 'module' ? p.modulePath(Number(s.id)) : title(p, s).title)} />
    </>
  );
}

export function Panel() {
  const p = profile.value;
  const s = selected.value;
  if (!p) return <aside aria-label="Selection" />;
  if (!s.kind)
    return (
      <aside aria-label="Selection">
        <h2>Selection</h2>
        <p class="dim">
          Select an op, a call, a line, a module, a block or a part of the bar: it is lit in every view and described
          here.
        </p>
      </aside>
    );
  const head = s.kind === 'node' ? nodeTitle(p, s.id) : title(p, s);
  const sum = summarize(p, s, range.value);
  return (
    <aside aria-label="Selection" class={panelOpen.value ? 'open' : ''}>
      <div class="panelhead">
        <h2 class="mono">
          {head.family && <FamilyMark family={head.family} />}
          {format.visible(format.cut(head.title, 200))}
        </h2>
        <button
          type="button"
          onClick={() => (clear(), (panelOpen.value = false))}
          aria-label="Drop the selection"
          title="Esc"
        >
          ×
        </button>
      </div>
      <p class="dim">{format.visible(format.cut(head.what, 300))}</p>
      {range.value && <p class="note">in the brushed part of the run</p>}
      {s.kind === 'part' && <Part p={p} name={s.id} />}
      {s.kind === 'block' && <Block p={p} block={Number(s.id)} />}
      {s.kind === 'node' && <GraphNodeFacts p={p} id={s.id} />}
      {sum && <Work p={p} s={s} sum={sum} />}
    </aside>
  );
}

function nodeTitle(p: Profile, id: string): { title: string; what: string; family: string } {
  const node = nodeOf(p, id);
  return {
    title: node?.label || node?.name || id,
    what: `node of ${p.header.graphs[Number(id.slice(0, id.indexOf('.')))]?.title ?? 'a graph'}`,
    family: node?.family ?? '',
  };
}
