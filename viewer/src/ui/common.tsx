// Small parts that several views share.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { points, strokes } from '../draw/canvas';
import { FAMILIES, familyColor, familyPattern, themeOf, type Pattern } from '../draw/theme';
import { dark, option, profile, say, setOption } from '../state/store';
import { copy } from './save';

/** A choice of a few: the state lives in the address. */
export function Choice({
  name,
  fallback,
  values,
  label,
}: {
  name: string;
  fallback: string;
  values: Record<string, string>;
  label: string;
}) {
  const now = option(name, fallback);
  return (
    <div class="group" role="group" aria-label={label}>
      <span>{label}</span>
      <div class="segments">
        {Object.entries(values).map(([value, title]) => (
          <button
            type="button"
            key={value}
            aria-pressed={now === value}
            onClick={() => setOption(name, value === fallback ? '' : value, true)}
          >
            {title}
          </button>
        ))}
      </div>
    </div>
  );
}

export function Check({ name, label }: { name: string; label: string }) {
  return (
    <label>
      <input
        type="checkbox"
        checked={option(name, '') === '1'}
        onChange={(e) => setOption(name, e.currentTarget.checked ? '1' : '', true)}
      />
      {label}
    </label>
  );
}

/** What a picture shows when the file lacks it, and the command that records it. */
export function Empty({ title, why, command }: { title: string; why: string; command?: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <div class="empty">
      <h2>{title}</h2>
      <p>{why}</p>
      {command && (
        <div class="command">
          <code>{command}</code>
          <button
            type="button"
            onClick={() =>
              void copy(command).then((done) => {
                setCopied(done);
                say(done ? 'copied' : 'could not copy');
              })
            }
          >
            {copied ? 'copied' : 'copy'}
          </button>
        </div>
      )}
    </div>
  );
}

/** The empty state of something that header.missing explains, or a sentence of our own. */
export function Missing({ what, title, why, command }: { what: string; title: string; why: string; command?: string }) {
  const said = profile.value?.header.missing[what];
  return <Empty title={title} why={said?.why ?? why} command={said?.command ?? command} />;
}

/** The program that the profile is of, for commands. */
export function program(): string {
  const text = String(profile.value?.header.run.program ?? '');
  return text || 'PROGRAM';
}

/** A sample of a colour with its pattern. */
export function Swatch({ color, pattern, inline }: { color: string; pattern: Pattern; inline?: boolean }) {
  const ink = dark.value ? '#000' : '#fff';
  return (
    <svg class={inline ? 'swatch' : ''} viewBox="0 0 14 12" width="14" height="12" aria-hidden="true">
      <rect width="14" height="12" fill={color} />
      {[0, 8].map((dx) =>
        [0, 8].map((dy) => (
          <g key={`${dx}${dy}`} transform={`translate(${dx} ${dy})`} opacity={0.6}>
            {strokes(pattern).map(([a, b, c, d], i) => (
              <line key={i} x1={a} y1={b} x2={c} y2={d} stroke={ink} stroke-width="1.4" />
            ))}
            {points(pattern).map(([a, b], i) => (
              <rect key={i} x={a} y={b} width="2" height="2" fill={ink} />
            ))}
          </g>
        )),
      )}
    </svg>
  );
}

export function FamilyMark({ family }: { family: string }) {
  return <Swatch inline color={familyColor(themeOf(dark.value), family)} pattern={familyPattern(family)} />;
}

export function FamilyLegend({ children }: { children?: ComponentChildren }) {
  const theme = themeOf(dark.value);
  return (
    <div class="legend">
      {FAMILIES.map((family) => (
        <span key={family}>
          <Swatch color={familyColor(theme, family)} pattern={familyPattern(family)} />
          {family === 'movement' ? 'memory movement' : family}
        </span>
      ))}
      <span>
        <Swatch color={familyColor(theme, 'scope')} pattern="" />
        module or scope
      </span>
      {children}
    </div>
  );
}
