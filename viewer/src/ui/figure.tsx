// A picture on a canvas, with all that every picture needs: sharp on any screen, a hover card that can
// be pinned, the keyboard, wheel and drag where a view has an axis to move on, SVG, PNG and CSV, and
// the table of the same numbers.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { CanvasPainter } from '../draw/canvas';
import type { Hit, Painter } from '../draw/painter';
import { SvgPainter } from '../draw/svg';
import { themeOf } from '../draw/theme';
import { visible } from '../model/format';
import { cards, clear, dark, say, select } from '../state/store';
import { csvOf, DataTable, type TableSpec } from './table';
import { save, savePng } from './save';

export interface Gestures {
  /** The plot's left and right edge in pixels. */
  left: number;
  right: (width: number) => number;
  /** Zoom by a factor around a place between 0 and 1. */
  zoom?: (factor: number, at: number) => void;
  /** Move by a share of what is seen. */
  pan?: (share: number) => void;
  /** A range was dragged, between 0 and 1. */
  range?: (from: number, to: number) => void;
  /** Drag moves instead of choosing a range. */
  dragPans?: boolean;
  /** Drag and wheel in both directions. */
  drag2?: (dx: number, dy: number) => void;
  zoom2?: (factor: number, x: number, y: number) => void;
  fit?: () => void;
}

interface Props {
  name: string;
  title: string;
  /** What a screen reader says instead of the picture. */
  label: string;
  height: number;
  paint: (p: Painter) => void;
  /** Made only when it is shown or saved. */
  table?: () => TableSpec<any>;
  gestures?: Gestures;
  tableOpen?: boolean;
}

const CARD_GAP = 14;
const ZOOM_STEP = 1.35;
const PAN_STEP = 0.2;
/** A drag of fewer pixels is a click. */
const CLICK = 4;

export function Figure(props: Props) {
  const { name, title, label, height, paint, table, gestures } = props;
  const stage = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const hits = useRef<Hit[]>([]);
  const [width, setWidth] = useState(0);
  const [hover, setHover] = useState<{ hit: Hit; x: number; y: number } | null>(null);
  const [focus, setFocus] = useState<Hit | null>(null);
  const [pinned, setPinned] = useState(false);
  const [asTable, setAsTable] = useState(props.tableOpen ?? false);
  const [band, setBand] = useState<[number, number] | null>(null);
  const drag = useRef<{ x: number; y: number; lastX: number; lastY: number } | null>(null);
  const isDark = dark.value;

  useLayoutEffect(() => {
    const element = stage.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)));
    observer.observe(element);
    setWidth(Math.floor(element.clientWidth));
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (width <= 0) return;
    const request = requestAnimationFrame(() => {
      const element = canvas.current;
      const c = element?.getContext('2d');
      if (!element || !c) return;
      const ratio = devicePixelRatio || 1;
      element.width = Math.round(width * ratio);
      element.height = Math.round(height * ratio);
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.clearRect(0, 0, width, height);
      const painter = new CanvasPainter(c, width, height, themeOf(isDark));
      paint(painter);
      hits.current = painter.hits;
      element.dataset.rects = String(painter.rects);
      element.dataset.hits = String(painter.hits.length);
      setFocus((f) => f && (painter.hits.find((h) => h.id === f.id) ?? null));
    });
    return () => cancelAnimationFrame(request);
  });

  // The wheel zooms, so the page must not scroll; that takes a listener that is not passive.
  useEffect(() => {
    const element = stage.current;
    if (!element || !(gestures?.zoom || gestures?.zoom2)) return;
    const wheel = (event: WheelEvent): void => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || gestures.zoom2 || document.activeElement === element) {
        event.preventDefault();
        const box = element.getBoundingClientRect();
        if (event.shiftKey && gestures.pan) return gestures.pan(event.deltaY / 1000);
        const factor = Math.exp(-event.deltaY / 400);
        if (gestures.zoom2) gestures.zoom2(factor, event.clientX - box.left, event.clientY - box.top);
        else gestures.zoom?.(factor, place(event.clientX - box.left));
      }
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => element.removeEventListener('wheel', wheel);
  });

  const place = (x: number): number => {
    if (!gestures) return 0;
    const right = gestures.right(width);
    return Math.min(1, Math.max(0, (x - gestures.left) / Math.max(1, right - gestures.left)));
  };
  const at = (event: PointerEvent | MouseEvent): { x: number; y: number; hit: Hit | null } => {
    const box = (stage.current as HTMLDivElement).getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    let hit: Hit | null = null;
    for (let i = hits.current.length - 1; i >= 0 && !hit; i--) {
      const h = hits.current[i];
      if (x >= h.x && x < h.x + h.w && y >= h.y && y < h.y + h.h) hit = h;
    }
    return { x, y, hit };
  };

  const onPointerMove = (event: PointerEvent): void => {
    const { x, y, hit } = at(event);
    const d = drag.current;
    if (d && gestures) {
      if (gestures.drag2) gestures.drag2(x - d.lastX, y - d.lastY);
      else if (gestures.dragPans) gestures.pan?.(-(x - d.lastX) / Math.max(1, gestures.right(width) - gestures.left));
      else if (gestures.range && Math.abs(x - d.x) >= CLICK) setBand([Math.min(x, d.x), Math.max(x, d.x)]);
      d.lastX = x;
      d.lastY = y;
      return;
    }
    if (pinned) return;
    setHover(hit && cards.value ? { hit, x: event.clientX, y: event.clientY } : null);
  };
  const onPointerDown = (event: PointerEvent): void => {
    if (event.button !== 0) return;
    const { x, y } = at(event);
    drag.current = { x, y, lastX: x, lastY: y };
    if (gestures) stage.current?.setPointerCapture(event.pointerId);
  };
  const onPointerUp = (event: PointerEvent): void => {
    const d = drag.current;
    drag.current = null;
    setBand(null);
    if (!d) return;
    const { x, y, hit } = at(event);
    if (Math.abs(x - d.x) < CLICK && Math.abs(y - d.y) < CLICK) {
      if (hit?.select) {
        select(hit.select);
        say(`selected: ${hit.title}`);
      } else if (hit?.open) hit.open();
      setFocus(hit);
    } else if (gestures?.range && !gestures.dragPans && !gestures.drag2) {
      const from = place(Math.min(x, d.x));
      const to = place(Math.max(x, d.x));
      if (to > from) gestures.range(from, to);
    }
  };

  const focusOn = (hit: Hit | null): void => {
    setFocus(hit);
    if (hit) say([hit.title, ...hit.details].join(', '));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const key = event.key;
    const around = focus ? place(focus.x + focus.w / 2) : 0.5;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => focusOn(neighbour(hits.current, focus, -1, 0)),
      ArrowRight: () => focusOn(neighbour(hits.current, focus, 1, 0)),
      ArrowUp: () => focusOn(neighbour(hits.current, focus, 0, -1)),
      ArrowDown: () => focusOn(neighbour(hits.current, focus, 0, 1)),
      Enter: () => {
        if (focus?.open) focus.open();
        else if (focus?.select) select(focus.select);
      },
      ' ': () => focus?.select && select(focus.select),
      p: () => {
        if (pinned) setHover(null);
        else if (focus && !hover) {
          const box = (stage.current as HTMLDivElement).getBoundingClientRect();
          setHover({ hit: focus, x: box.left + focus.x + Math.min(focus.w, 40), y: box.top + focus.y + focus.h });
        }
        setPinned(!pinned);
      },
      w: () =>
        gestures?.zoom2 ? gestures.zoom2(ZOOM_STEP, width / 2, height / 2) : gestures?.zoom?.(ZOOM_STEP, around),
      s: () =>
        gestures?.zoom2
          ? gestures.zoom2(1 / ZOOM_STEP, width / 2, height / 2)
          : gestures?.zoom?.(1 / ZOOM_STEP, around),
      a: () => (gestures?.drag2 ? gestures.drag2(width * PAN_STEP, 0) : gestures?.pan?.(-PAN_STEP)),
      d: () => (gestures?.drag2 ? gestures.drag2(-width * PAN_STEP, 0) : gestures?.pan?.(PAN_STEP)),
      f: () => gestures?.fit?.(),
      Escape: () => {
        setPinned(false);
        setHover(null);
        setFocus(null);
        clear();
      },
    };
    const act = acts[key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };

  const svg = (): string => {
    const painter = new SvgPainter(width, height, themeOf(isDark), title);
    paint(painter);
    return painter.finish();
  };
  return (
    <figure class={`figure figure-${name}`}>
      <div class="figurehead">
        <h3>{title}</h3>
        {table && (
          <button
            type="button"
            aria-pressed={asTable}
            onClick={() => setAsTable(!asTable)}
            title="The same numbers as a table"
          >
            table
          </button>
        )}
        <button
          type="button"
          onClick={() => save(`${name}.svg`, 'image/svg+xml', svg())}
          title="Save this picture as SVG"
        >
          SVG
        </button>
        <button
          type="button"
          onClick={() => void savePng(`${name}.png`, svg(), width, height)}
          title="Save this picture as PNG"
        >
          PNG
        </button>
        {table && (
          <button
            type="button"
            onClick={() => save(`${name}.csv`, 'text/csv', csvOf(table()))}
            title="Save the numbers as CSV"
          >
            CSV
          </button>
        )}
      </div>
      <div
        class={`stage ${gestures ? 'pannable' : ''}`}
        ref={stage}
        role="application"
        aria-label={`${label}. Arrow keys move, Enter opens, Space selects.`}
        tabIndex={0}
        style={{ height: `${height}px` }}
        onPointerMove={onPointerMove}
        onPointerDown={onPointerDown}
        onPointerUp={onPointerUp}
        onPointerCancel={() => ((drag.current = null), setBand(null))}
        onPointerLeave={() => !pinned && setHover(null)}
        onDblClick={(event) => at(event).hit?.open?.()}
        onKeyDown={onKeyDown}
      >
        <canvas ref={canvas} />
        {focus && <div class="ring" style={boxOf(focus)} />}
        {band && <div class="band" style={{ left: `${band[0]}px`, width: `${band[1] - band[0]}px` }} />}
      </div>
      {hover && <Card hit={hover.hit} x={hover.x} y={hover.y} pinned={pinned} />}
      {asTable && table && <DataTable spec={table()} />}
    </figure>
  );
}

const boxOf = (h: Hit) => ({
  left: `${h.x - 1}px`,
  top: `${h.y - 1}px`,
  width: `${h.w + 2}px`,
  height: `${h.h + 2}px`,
});

/** The nearest hit in a direction; from nowhere, the first. */
export function neighbour(hits: Hit[], from: Hit | null, dx: number, dy: number): Hit | null {
  if (!from) return hits[0] ?? null;
  const cx = from.x + from.w / 2;
  const cy = from.y + from.h / 2;
  let best: Hit | null = null;
  let bestCost = Infinity;
  for (const h of hits) {
    if (h.id === from.id) continue;
    const along = dx !== 0 ? dx * (h.x + h.w / 2 - cx) : dy * (h.y + h.h / 2 - cy);
    const edge =
      dx !== 0
        ? dx > 0
          ? h.x - (from.x + from.w)
          : from.x - (h.x + h.w)
        : dy > 0
          ? h.y - (from.y + from.h)
          : from.y - (h.y + h.h);
    if (along <= 0 || edge < -Math.min(from.w, h.w, from.h, h.h) / 2) continue;
    // Across the direction only what the two do not share counts.
    const across =
      dx !== 0
        ? Math.max(0, h.y - (from.y + from.h - 1), from.y - (h.y + h.h - 1)) * 4
        : Math.max(0, h.x - (from.x + from.w - 1), from.x - (h.x + h.w - 1)) * 4;
    const cost = Math.max(0, edge) + across + along / 1000;
    if (cost < bestCost) {
      bestCost = cost;
      best = h;
    }
  }
  return best ?? from;
}

function Card({ hit, x, y, pinned }: { hit: Hit; x: number; y: number; pinned: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const left =
      x + CARD_GAP + element.offsetWidth > innerWidth ? Math.max(4, x - CARD_GAP - element.offsetWidth) : x + CARD_GAP;
    const top =
      y + CARD_GAP + element.offsetHeight > innerHeight
        ? Math.max(4, y - CARD_GAP - element.offsetHeight)
        : y + CARD_GAP;
    element.style.left = `${left}px`;
    element.style.top = `${top}px`;
  });
  return (
    <div class={`hover ${pinned ? 'pinned' : ''}`} ref={ref}>
      <b>{visible(hit.title)}</b>
      <p>{hit.details.map(visible).join('\n')}</p>
    </div>
  );
}
