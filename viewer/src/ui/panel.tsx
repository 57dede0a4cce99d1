// The selection panel: whatever is selected, in the same order: what, how often, time, work, share of
// the ceiling, where it comes from, what it keeps alive, what it would gain.

import type { ComponentChildren } from 'preact';
import { tone, verdicts } from '../model/compare';
import * as format from '../model/format';
import { repeatsOf } from '../model/repeats';
import { savers, type Selection } from '../model/selection';
import { whySlow } from '../model/slow';
import { largest, summarize, type Summary } from '../model/summary';
import { shapes } from '../model/tree';
import { clear, comparison, go, memory, page, panelOpen, profile, range, select, selected, setView } from '../state/store';
import type { Profile } from '../model/profile';
import { FamilyMark } from './common';
import { partMeaning } from './parts';

function Rows({ rows }: { rows: [string, ComponentChildren][] }) {
  const shown = rows.filter(([, value]) => value !== null && value !== '');
  if (shown.length === 0) return null;
  return (
    <dl>
      {shown.map(([name, value]) => [<dt key={`t${name}`}>{name}</dt>, <dd key={`d${name}`}>{value}</dd>])}
    </dl>
  );
}

export function To({ to, children }: { to: Selection; children: ComponentChildren }) {
  return <button type="button" class="link" onClick={() => select(to)}>{children}</button>;
}

function Spark({ values }: { values: number[] }) {
  if (values.length < 2) return null;
  const most = Math.max(...values);
  const columns = Math.min(values.length, 140);
  const bars = Array.from({ length: columns }, (_, c) => {
    const from = Math.floor((c * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((c + 1) * values.length) / columns));
    return Math.max(...values.slice(from, to)) / most;
  });
  return (
    <svg class="spark" viewBox={`0 0 ${columns} 36`} preserveAspectRatio="none" role="img" aria-label={`time of each of ${values.length} calls, at most ${format.time(most)}`}>
      {bars.map((share, i) => <rect key={i} x={i} y={36 - 34 * share} width="0.82" height={Math.max(0.5, 34 * share)} fill="currentColor" opacity="0.65" />)}
    </svg>
  );
}

function title(p: Profile, s: Selection): { title: string; what: string; family: string } {
  const id = Number(s.id);
  switch (s.kind) {
    case 'op':
      return { title: s.id, what: 'op, all sizes', family: p.header.signatures.find((x) => x.name === s.id)?.family ?? 'other' };
    case 'sig':
      return { title: p.header.signatures[id].name, what: `call kind ${shapes(p, id)}`, family: p.header.signatures[id].family };
    case 'call':
      return { title: p.name(id), what: `call ${format.count(id)} at ${format.time(p.event.begin[id])}`, family: p.family(id) };
    case 'fn':
      return { title: p.functions[id].name, what: `function at ${p.lineName(p.functions[id].line) || 'no line'}`, family: '' };
    case 'line':
      return { title: p.lineName(id), what: `line in ${p.lines[id].function}`, family: '' };
    case 'module':
      return { title: p.modulePath(id) || '(model)', what: `module ${p.header.modules[id].type}`, family: '' };
    case 'block':
      return { title: `block of ${format.bytes(p.allocation.bytes[id])}`, what: p.header.categories[p.allocation.category[id]] ?? 'memory', family: '' };
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
        {row.low !== null && row.low !== undefined && row.high !== undefined && ` (${format.change(row.low)} to ${format.change(row.high)})`}
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
  const name = s.kind === 'op' ? s.id : s.kind === 'sig' ? p.header.signatures[Number(s.id)].name : s.kind === 'call' ? p.name(Number(s.id)) : '';
  return (
    <>
      <h3>How often</h3>
      <Rows rows={[['calls', format.count(sum.calls)], ['in steps', sum.steps > 0 ? format.count(sum.steps) : null]]} />
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
          ['first calls', sum.first > 0 && s.kind !== 'call' ? format.time(sum.first) : null]]} />
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
              ['bound', s.kind === 'sig' ? p.header.signatures[Number(s.id)].bound : s.kind === 'call' ? (p.signature(Number(s.id))?.bound ?? '') : null]]} />
        </>
      )}
      <h3>From</h3>
      <Rows
        rows={[
          ['line', site >= 0 && s.kind !== 'line' ? <To to={{ kind: 'line', id: String(p.lineOf[site]) }}>{p.lineName(p.lineOf[site])}</To> : null],
          ['in', site >= 0 ? <span class="mono">{format.cut(format.visible(p.header.sites[site].function), 80)}</span> : null],
          ['module', module >= 0 && s.kind !== 'module' ? <To to={{ kind: 'module', id: String(module) }}>{p.modulePath(module) || '(model)'}</To> : null],
          ['op', s.kind === 'sig' || s.kind === 'call' ? <To to={{ kind: 'op', id: name }}>{name}</To> : null]]} />
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
                onClick={() => go({ view: 'roofline', options: { ...page.value.options, 'roofline.drag': `${name}=1`, 'roofline.show': 'ceiling' } })}>
                try
              </button>
            )}
          </p>
        </>
      )}
      <Verdict name={name || title(p, s).title} />
    </>
  );
}

function ModuleFacts({ p, module }: { p: Profile; module: number }) {
  const m = p.header.modules[module];
  return <Rows rows={[['parameters', m.parameters > 0 ? format.count(m.parameters) : null], ['their bytes', m.parameter_bytes > 0 ? format.bytes(m.parameter_bytes) : null]]} />;
}

function Call({ p, call }: { p: Profile; call: number }) {
  const { forward, parent, signature, step } = p.event;
  const slow = whySlow(p, call);
  const twins = repeatsOf(p, call);
  let backward = -1;
  for (let i = call + 1; i < p.n && backward < 0; i++) if (forward[i] === call) backward = i;
  const saved: number[] = [];
  const of = p.columns['saved.node'] ?? p.columns['saved.event'];
  if (of) for (let i = 0; i < of.length; i++) if (of[i] === call) saved.push(p.columns['saved.allocation'][i]);
  const savedBytes = saved.reduce((sum, b) => sum + (b >= 0 && b < p.blocks ? p.allocation.bytes[b] : 0), 0);
  return (
    <>
      <Rows
        rows={[
          ['called by', parent[call] >= 0 ? <To to={{ kind: 'call', id: String(parent[call]) }}>{p.name(parent[call])}</To> : 'the program'],
          ['forward', forward[call] >= 0 ? <To to={{ kind: 'call', id: String(forward[call]) }}>{p.name(forward[call])}</To> : null],
          ['backward', backward >= 0 ? <To to={{ kind: 'call', id: String(backward) }}>{p.name(backward)}</To> : null],
          ['kind', <To to={{ kind: 'sig', id: String(signature[call]) }}>{shapes(p, signature[call]) || 'no tensors'}</To>],
          ['arguments', p.signature(call)?.attributes ? <span class="mono">{format.cut(format.visible(p.signature(call).attributes), 120)}</span> : null],
          ['step', step[call] >= 0 ? <To to={{ kind: 'step', id: String(step[call]) }}>{step[call]}</To> : null]]} />
      {saved.length > 0 && (
        <>
          <h3>Keeps alive</h3>
          <Rows rows={[['saves for backward', `${format.count(saved.length)} blocks, ${format.bytes(savedBytes)}`]]} />
        </>
      )}
      {slow.calls > 1 && (
        <div class="whyslow">
          <h3>Why was this call {slow.excess >= 0 ? 'slow' : 'fast'}</h3>
          <Rows
            rows={[
              ['rank', `${format.count(slow.rank)} of ${format.count(slow.calls)}`],
              ['median of its kind', format.time(slow.median)],
              ...slow.parts.map((part): [string, string] => [part.name, `${part.ns > 0 ? '+' : ''}${format.time(part.ns)}`]),
              ['its excess', `${slow.excess > 0 ? '+' : ''}${format.time(slow.excess)}`]]} />
        </div>
      )}
      {twins && (
        <div class="repeats">
          <h3>Same inputs as other calls</h3>
          <p>
            {format.count(twins.calls.length)} calls read the same values; keeping the first result would have saved {format.time(twins.saving)}.{' '}
            {twins.calls.filter((i) => i !== call).slice(0, 6).map((i) => (
              <span key={i}><To to={{ kind: 'call', id: String(i) }}>call {format.count(i)}</To> </span>
            ))}
          </p>
        </div>
      )}
    </>
  );
}

function Block({ p, block }: { p: Profile; block: number }) {
  const a = p.allocation;
  const call = (event: number): ComponentChildren =>
    event >= 0 ? <To to={{ kind: 'call', id: String(event) }}>{p.name(event)}</To> : 'outside every op';
  const who = savers(p, block);
  const alive = memory.value ? a.before[block] === 1 || a.begin[block] >= 0 : false;
  return (
    <>
      <h3>Life</h3>
      <Rows
        rows={[
          ['bytes', format.count(a.bytes[block])],
          ['taken', a.before[block] ? 'before the recording' : format.time(a.begin[block])],
          ['given back', a.end[block] >= 0 ? format.time(a.end[block]) : 'never'],
          ['lived', a.end[block] >= 0 && alive ? format.time(a.end[block] - a.begin[block]) : 'until the end']]} />
      <h3>From</h3>
      <Rows
        rows={[
          ['maker', call(a.event[block])],
          ['saver', who.length > 0 ? who.slice(0, 4).map((e) => <span key={e}>{call(e)} </span>) : null],
          ['freer', a.end[block] >= 0 ? call(a.freed_by[block]) : null]]} />
    </>
  );
}

function Part({ p, name }: { p: Profile; name: string }) {
  const part = p.header.parts.find((x) => x.name === name);
  if (!part) return null;
  const [meaning, where] = partMeaning(name);
  return (
    <>
      <h3>Time</h3>
      <Rows rows={[['time', format.time(part.ns)], ['share', format.percent(part.share)]]} />
      <h3>What it is</h3>
      <p>{meaning}</p>
      <p><button type="button" onClick={() => setView(where)}>show it in {where}</button></p>
    </>
  );
}

function GraphNodeFacts({ p, id }: { p: Profile; id: string }) {
  const [g, n] = id.split('.').map(Number);
  const graph = p.header.graphs[g];
  const node = graph?.nodes.find((x) => x.id === n);
  if (!node) return null;
  const name = (k: number): ComponentChildren => {
    const other = graph.nodes.find((x) => x.id === k);
    return other ? <To to={{ kind: 'node', id: `${g}.${k}` }}>{format.cut(other.label || other.name, 60)}</To> : '';
  };
  const site = node.site ?? -1;
  return (
    <>
      <Rows
        rows={[
          ['shape', node.shape ?? null], ['time', node.time_ns ? format.time(node.time_ns) : null],
          ['bytes', node.bytes ? format.bytes(node.bytes) : null], ['FLOPs', node.flops ? format.flops(node.flops) : null],
          ['line', site >= 0 && p.lineOf[site] !== undefined ? <To to={{ kind: 'line', id: String(p.lineOf[site]) }}>{p.lineName(p.lineOf[site])}</To> : null],
          ['module', (node.module ?? -1) >= 0 ? <To to={{ kind: 'module', id: String(node.module) }}>{p.modulePath(node.module as number)}</To> : null],
          ['call', (node.event ?? -1) >= 0 ? <To to={{ kind: 'call', id: String(node.event) }}>call {node.event}</To> : null]]} />
      {node.why && (
        <>
          <h3>Why it was not fused</h3>
          <p>{node.why}</p>
        </>
      )}
      <h3>Reads</h3>
      {graph.edges.filter((e) => e.to === n).slice(0, 12).map((e) => <p key={e.from}>{name(e.from)} <span class="dim">{e.label}</span></p>)}
      <h3>Read by</h3>
      {graph.edges.filter((e) => e.from === n).slice(0, 12).map((e) => <p key={e.to}>{name(e.to)} <span class="dim">{e.label}</span></p>)}
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
        <p class="dim">Select an op, a call, a line, a module, a block or a part of the bar: it is lit in every view and described here.</p>
      </aside>
    );
  const head = s.kind === 'node' ? nodeTitle(p, s.id) : title(p, s);
  const sum = summarize(p, s, range.value);
  return (
    <aside aria-label="Selection" class={panelOpen.value ? 'open' : ''}>
      <div class="panelhead">
        <h2 class="mono">{head.family && <FamilyMark family={head.family} />}{format.visible(format.cut(head.title, 200))}</h2>
        <button type="button" onClick={() => (clear(), (panelOpen.value = false))} aria-label="Drop the selection" title="Esc">×</button>
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
  const [g, n] = id.split('.').map(Number);
  const node = p.header.graphs[g]?.nodes.find((x) => x.id === n);
  return { title: node?.label || node?.name || id, what: `node of ${p.header.graphs[g]?.title ?? 'a graph'}`, family: node?.family ?? '' };
}
