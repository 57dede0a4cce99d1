// The playground: an expression and its inputs, evaluated by the server; the graph view then walks
// through its values and gradients.

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { completeGraph, type Graph, type Header } from '../data/header';
import { post } from '../data/live';
import { say, setOption } from '../state/store';

export const played = signal<Graph | null>(null);

const EXAMPLE = 'a = x**2; b = sin(a); c = exp(b); y = c*x';

/** "x=2 w=[1,2]" as texts by name; the server reads them. */
export function parseInputs(text: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const match of text.matchAll(/([A-Za-z_]\w*)\s*=\s*(\[[^=]*\]|[^\s,;]+)/g)) out[match[1]] = match[2].trim();
  return out;
}

export function Playground({ header }: { header: Header }) {
  const [expression, setExpression] = useState(header.expression || EXAMPLE);
  const [inputs, setInputs] = useState(
    header.expression
      ? Object.entries(header.inputs)
          .map(([name, value]) => `${name}=${value}`)
          .join(' ')
      : 'x=2',
  );
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    setBusy(true);
    setError('');
    try {
      const answer = await post<{ graph?: Graph; error?: string }>('playground', {
        expression,
        inputs: parseInputs(inputs),
      });
      if (answer.error || !answer.graph) throw new Error(answer.error ?? 'the server sent no graph');
      played.value = completeGraph(answer.graph);
      setOption('graph.which', '');
      setOption('graph.step', '0');
      say('evaluated');
    } catch (problem) {
      setError((problem as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="tools" onSubmit={(e) => (e.preventDefault(), void run())}>
      <label>
        expression{' '}
        <input
          type="text"
          class="mono"
          size={44}
          value={expression}
          onInput={(e) => setExpression(e.currentTarget.value)}
        />
      </label>
      <label>
        inputs{' '}
        <input type="text" class="mono" size={16} value={inputs} onInput={(e) => setInputs(e.currentTarget.value)} />
      </label>
      <button type="submit" disabled={busy}>
        {busy ? 'evaluating …' : 'evaluate'}
      </button>
      {error && (
        <span class="warning" role="alert">
          {error}
        </span>
      )}
    </form>
  );
}
