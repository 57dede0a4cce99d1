// The fixed parts of the exported page: its head with the content policy, its style, and the script
// that draws the icicle and the bars of shares, sorts tables and filters long ones. Texts go into
// the page as text nodes only.
#pragma once

#include <string_view>

namespace pellucid::profile {

// In fmt's language: doubled braces are braces.
inline constexpr char kPageHead[] = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style nonce="{nonce}">{style}</style></head><body>
<h1>{title}</h1>
)";

/// How many colours the style has, as the classes c0, c1…
inline constexpr size_t kColors = 13;

inline constexpr std::string_view kPageStyle = R"(
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5em auto; max-width: 1180px; padding: 0 1em; color: #222; background: #fff }
h1 { font-size: 1.25em; overflow-wrap: anywhere; margin-bottom: .2em } h2 { font-size: 1.1em; margin: 1.6em 0 .4em }
p { margin: .2em 0 .6em; color: #555 } p.lead { font-size: 1.15em; color: #222; margin: .6em 0 1em }
pre { font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; color: #444; margin: .4em 0 }
.scroll { overflow-x: auto } .side { display: flex; flex-wrap: wrap; gap: 0 2.5em } .side pre { max-width: 60em }
.side > :last-child { flex: 1 1 26em } details pre { white-space: pre; overflow-x: auto }
table { border-collapse: collapse; margin: .3em 0 .6em; font-variant-numeric: tabular-nums }
th, td { padding: .16em .75em; text-align: left; white-space: pre; border-bottom: 1px solid #eee }
th { border-bottom: 1px solid #888; cursor: pointer; user-select: none } th:hover { background: #f2f5f8 }
th.up::after { content: " ▴" } th.down::after { content: " ▾" } tbody tr:hover { background: #f7f9fb } .n { text-align: right }
.filter { font: inherit; padding: .15em .5em; margin: .2em 0; border: 1px solid #bbb; border-radius: 3px }
summary { cursor: pointer; font-weight: 600; margin: .4em 0 } .hint { font-size: .9em }
.shares { width: 100%; height: 24px; display: block; margin: .4em 0 } .legend { font-size: .9em } .legend span { margin-right: 1.1em }
.legend svg { width: .8em; height: .8em; vertical-align: -1px } .memory { width: 100%; height: auto; display: block }
.memory line { stroke: #888 } .memory line.light { stroke: #ddd; stroke-dasharray: 3 3 }
.memory text { font: 12px system-ui, sans-serif; fill: #555 } .end { text-anchor: end }
.c0 { fill: #4e79a7 } .c1 { fill: #76b7b2 } .c2 { fill: #edc948 } .c3 { fill: #f28e2b }
.c4 { fill: #e15759 } .c5 { fill: #b07aa1 } .c6 { fill: #9c755f } .c7 { fill: #bab0ac }
.c8 { fill: #59a14f } .c9 { fill: #d4a6c8 } .c10 { fill: #79706e } .c11 { fill: #8cd17d } .c12 { fill: #86bcb6 }
#icicle svg { width: 100%; display: block } #icicle rect { stroke: #fff; cursor: pointer }
#icicle text { font: 11px ui-monospace, monospace; pointer-events: none }
#what { min-height: 1.4em; font-family: ui-monospace, monospace; font-size: 12px }
@media print { details { display: none } }
)";

// Bars behind shares, tables that sort by a click on a heading (a sum stays last), a box that
// filters the rows of long ones, and the icicle: a row a depth, a rectangle a call path, as wide as
// its time; a click makes it the whole, a click on the whole goes back.
inline constexpr std::string_view kPageScript = R"(
for (const cell of document.querySelectorAll('td[data-bar]')) {
  const share = Math.min(100, 100 * Number(cell.dataset.v));
  cell.style.background = `linear-gradient(to left, #d9e6f2 ${share}%, transparent ${share}%)`;
}
for (const table of document.querySelectorAll('table')) {
  const rows = table.tBodies[0].rows;
  if (rows.length < 12) continue;
  const box = document.createElement('input');
  Object.assign(box, {type: 'search', className: 'filter', placeholder: 'filter rows'});
  box.addEventListener('input', () => {
    const wanted = box.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(box);
}
for (const head of document.querySelectorAll('th')) head.addEventListener('click', () => {
  const table = head.closest('table'), body = table.tBodies[0], column = head.cellIndex;
  const down = !head.classList.contains('down');
  for (const other of table.querySelectorAll('th')) other.className = other.className.replace(/up|down/, '').trim();
  head.classList.add(down ? 'down' : 'up');
  const key = row => { const c = row.cells[column]; return c.dataset.v === undefined ? c.textContent : Number(c.dataset.v); };
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === 'number' ? 1 : -1;
  const is_sum = row => row.className === 'sum';
  const rows = [...body.rows].sort((a, b) => is_sum(a) - is_sum(b) || (down ? -1 : 1) * order(key(a), key(b)));
  body.append(...rows);
});
if (document.getElementById('calls')) (() => {
  const rows = JSON.parse(document.getElementById('calls').textContent);
  const root = {name: 'all', calls: 1, total: 0, self: 0, children: [], parent: null};
  const nodes = rows.map(([parent, name, calls, total, self]) => ({name, calls, total, self, children: [], parent}));
  for (const n of nodes) { n.parent = n.parent < 0 ? root : nodes[n.parent]; n.parent.children.push(n); }
  for (const n of root.children) root.total += n.total;
  const box = document.getElementById('icicle'), what = document.getElementById('what');
  const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + 's' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + 'ms' : (ns / 1e3).toFixed(3) + 'us';
  const hue = s => { let h = 0; for (const c of s) h = (h * 31 + c.codePointAt(0)) % 360; return h; };
  const make = (tag, attributes, parent) => {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    parent.appendChild(e);
    return e;
  };
  const height = 18;
  let shown = root;
  function draw(top) {
    shown = top;
    box.replaceChildren();
    const width = box.clientWidth || 960, svg = make('svg', {role: 'img', 'aria-label': 'calls by time'}, box);
    let deepest = 0;
    const put = (n, x, depth) => {
      const w = width * n.total / Math.max(1, top.total);
      if (w < 0.5) return;
      deepest = Math.max(deepest, depth);
      const r = make('rect', {x, y: depth * height, width: w, height, fill: `hsl(${hue(n.name)} 60% 78%)`}, svg);
      r.addEventListener('click', () => draw(n === top && n.parent ? n.parent : n));
      r.addEventListener('mouseenter', () => { what.textContent =
        `${n.name}: ${time(n.total)} (${(100 * n.total / Math.max(1, root.total)).toFixed(2)} %), itself ${time(n.self)}, ${n.calls} calls`; });
      if (w > 30) make('text', {x: x + 3, y: depth * height + 13}, svg).textContent = n.name.slice(0, Math.floor(w / 7));
      n.children.sort((a, b) => b.total - a.total);
      for (const c of n.children) { put(c, x, depth + 1); x += width * c.total / Math.max(1, top.total); }
    };
    put(top, 0, 0);
    svg.setAttribute('height', (deepest + 1) * height);
    svg.setAttribute('viewBox', `0 0 ${width} ${(deepest + 1) * height}`);
  }
  draw(root);
  addEventListener('resize', () => draw(shown));
})();
)";

}  // namespace pellucid::profile
