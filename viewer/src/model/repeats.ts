// Calls that read the same values as an earlier call of their kind: keeping its result would save
// their time. The recorder says so in event.inputs; 0 is "not known".

import type { Profile } from './profile';
import { contains, type Range } from './range';

export interface Repeat {
  inputs: number;
  signature: number;
  calls: number[];
  /** Time of all calls but the first. */
  saving: number;
}

export function repeats(p: Profile, range: Range | null): Repeat[] {
  const groups = new Map<string, number[]>();
  for (let i = 0; i < p.n; i++) {
    const inputs = p.event.inputs[i];
    if (inputs === 0 || inputs === -1 || !contains(range, p.event.begin[i])) continue;
    const key = `${p.event.signature[i]}/${inputs}`;
    const calls = groups.get(key);
    if (calls) calls.push(i);
    else groups.set(key, [i]);
  }
  const out: Repeat[] = [];
  for (const calls of groups.values()) {
    if (calls.length < 2) continue;
    const saving = calls.slice(1).reduce((sum, i) => sum + p.time(i), 0);
    out.push({ inputs: p.event.inputs[calls[0]], signature: p.event.signature[calls[0]], calls, saving });
  }
  return out.sort((a, b) => b.saving - a.saving);
}

/** The group that a call belongs to, or null. */
export function repeatsOf(p: Profile, call: number): Repeat | null {
  const inputs = p.event.inputs[call];
  if (inputs === 0 || inputs === -1) return null;
  const calls: number[] = [];
  for (let i = 0; i < p.n; i++)
    if (p.event.inputs[i] === inputs && p.event.signature[i] === p.event.signature[call]) calls.push(i);
  if (calls.length < 2) return null;
  return {
    inputs,
    signature: p.event.signature[call],
    calls,
    saving: calls.slice(1).reduce((sum, i) => sum + p.time(i), 0),
  };
}
