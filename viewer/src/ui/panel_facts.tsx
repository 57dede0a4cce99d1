// What the panel says of one module, call, block, part of the bar or node of a graph, beyond the
// figures that every selection has.

import type { ComponentChildren } from 'preact';
import * as format from '../model/format';
import { GraphIndex, valueText } from '../model/graph';
import type { Profile } from '../model/profile';
import { repeatsOf } from '../model/repeats';
import { nodeOf, savedPairs, savers } from '../model/selection';
import { whySlow } from '../model/slow';
import { shapes } from '../model/tree';
import { memory, setView } from '../state/store';
import { Rows, To } from './panel_parts';
import { partMeaning } from './parts';

export function ModuleFacts({ p, module }: { p: Profile; module: number }) {
  const m = p.header.modules[module];
  return (
    <Rows
      rows={[
        ['parameters', m.parameters > 0 ? format.count(m.parameters) : null],
        ['their bytes', m.parameter_bytes > 0 ? format.bytes(m.parameter_bytes) : null],
      ]}
    />
  );
}

export function Call({ p, call }: { p: Profile; call: number }) {
  const { forward, parent, signature, step } = p.event;
  const slow = whySlow(p, call);
  const twins = repeatsOf(p, call);
  let backward = -1;
  for (let i = call + 1; i < p.n && backward < 0; i++) if (forward[i] === call) backward = i;
  const pairs = savedPairs(p);
  const saved = Array.from(pairs.blocks).filter((_, i) => pairs.events[i] === call);
  const savedBytes = saved.reduce((sum, b) => sum + (b >= 0 && b < p.blocks ? p.allocation.bytes[b] : 0), 0);
  return (
    <>
      <Rows
        rows={[
          [
            'called by',
            parent[call] >= 0 ? (
              <To to={{ kind: 'call', id: String(parent[call]) }}>{p.name(parent[call])}</To>
            ) : (
              'the program'
            ),
          ],
          [
            'forward',
            forward[call] >= 0 ? (
              <To to={{ kind: 'call', id: String(forward[call]) }}>{p.name(forward[call])}</To>
            ) : null,
          ],
          ['backward', backward >= 0 ? <To to={{ kind: 'call', id: String(backward) }}>{p.name(backward)}</To> : null],
          [
            'kind',
            <To to={{ kind: 'sig', id: String(signature[call]) }}>{shapes(p, signature[call]) || 'no tensors'}</To>,
          ],
          [
            'arguments',
            p.signature(call)?.attributes ? (
              <span class="mono">{format.cut(format.visible(p.signature(call).attributes), 120)}</span>
            ) : null,
          ],
          ['step', step[call] >= 0 ? <To to={{ kind: 'step', id: String(step[call]) }}>{step[call]}</To> : null],
        ]}
      />
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
              ...slow.parts.map((part): [string, string] => [
                part.name,
                `${part.ns > 0 ? '+' : ''}${format.time(part.ns)}`,
              ]),
              ['its excess', `${slow.excess > 0 ? '+' : ''}${format.time(slow.excess)}`],
            ]}
          />
        </div>
      )}
      {twins && (
        <div class="repeats">
          <h3>Same inputs as other calls</h3>
          <p>
            {format.count(twins.calls.length)} calls read the same values; keeping the first result would have saved{' '}
            {format.time(twins.saving)}.{' '}
            {twins.calls
              .filter((i) => i !== call)
              .slice(0, 6)
              .map((i) => (
                <span key={i}>
                  <To to={{ kind: 'call', id: String(i) }}>call {format.count(i)}</To>{' '}
                </span>
              ))}
          </p>
        </div>
      )}
    </>
  );
}

export function Block({ p, block }: { p: Profile; block: number }) {
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
          ['lived', a.end[block] >= 0 && alive ? format.time(a.end[block] - a.begin[block]) : 'until the end'],
        ]}
      />
      <h3>From</h3>
      <Rows
        rows={[
          ['maker', call(a.event[block])],
          ['saver', who.length > 0 ? who.slice(0, 4).map((e) => <span key={e}>{call(e)} </span>) : null],
          ['freer', a.end[block] >= 0 ? call(a.freed_by[block]) : null],
        ]}
      />
    </>
  );
}

export function Part({ p, name }: { p: Profile; name: string }) {
  const part = p.header.parts.find((x) => x.name === name);
  if (!part) return null;
  const [meaning, where] = partMeaning(name);
  return (
    <>
      <h3>Time</h3>
      <Rows
        rows={[
          ['time', format.time(part.ns)],
          ['share', format.percent(part.share)],
        ]}
      />
      <h3>What it is</h3>
      <p>{meaning}</p>
      <p>
        <button type="button" onClick={() => setView(where)}>
          show it in {where}
        </button>
      </p>
    </>
  );
}

export function GraphNodeFacts({ p, id }: { p: Profile; id: string }) {
  const node = nodeOf(p, id);
  if (!node) return null;
  const which = id.slice(0, id.indexOf('.'));
  const index = new GraphIndex(p.header.graphs[Number(which)]);
  const name = (other: string): ComponentChildren =>
    index.nodeById.has(other) ? (
      <To to={{ kind: 'node', id: `${which}.${other}` }}>{format.visible(format.cut(index.labelOf(other), 60))}</To>
    ) : (
      format.visible(format.cut(index.labelOf(other), 60))
    );
  const edges = index.graph.edges;
  const site = node.site ?? -1;
  return (
    <>
      <Rows
        rows={[
          ['shape', node.shape ?? null],
          ['value', node.value !== undefined ? format.cut(valueText(node.value), 200) : null],
          ['gradient', node.gradient !== undefined ? format.cut(valueText(node.gradient), 200) : null],
          ['time', node.time_ns ? format.time(node.time_ns) : null],
          ['bytes', node.bytes ? format.bytes(node.bytes) : null],
          ['FLOPs', node.flops ? format.flops(node.flops) : null],
          [
            'line',
            site >= 0 && p.lineOf[site] !== undefined ? (
              <To to={{ kind: 'line', id: String(p.lineOf[site]) }}>{p.lineName(p.lineOf[site])}</To>
            ) : null,
          ],
          [
            'module',
            (node.module ?? -1) >= 0 ? (
              <To to={{ kind: 'module', id: String(node.module) }}>{p.moduleLabel(node.module as number)}</To>
            ) : null,
          ],
          [
            'call',
            (node.event ?? -1) >= 0 ? <To to={{ kind: 'call', id: String(node.event) }}>call {node.event}</To> : null,
          ],
        ]}
      />
      {node.why && (
        <>
          <h3>Why it was not fused</h3>
          <p>{node.why}</p>
        </>
      )}
      <h3>Reads</h3>
      {edges
        .filter((e) => e.to === node.id)
        .slice(0, 12)
        .map((e) => (
          <p key={e.from}>
            {name(e.from)} <span class="dim">{e.label}</span>
          </p>
        ))}
      <h3>Read by</h3>
      {edges
        .filter((e) => e.from === node.id)
        .slice(0, 12)
        .map((e) => (
          <p key={e.to}>
            {name(e.to)} <span class="dim">{e.label}</span>
          </p>
        ))}
    </>
  );
}
