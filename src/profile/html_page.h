// The fixed parts of the exported page: its head with the content policy, its style, and the script
// that draws the icicle. Texts go into the page as text nodes only.
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

inline constexpr std::string_view kPageStyle = R"(
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
h1 { font-size: 1.2em; overflow-wrap: anywhere } h2 { font-size: 1.1em }
pre { font: 12px/1.4 ui-monospace, monospace; overflow-x: auto }
table { border-collapse: collapse; margin: .5em 0 1em; font-variant-numeric: tabular-nums }
th, td { padding: .15em .7em; text-align: left; white-space: pre; border-bottom: 1px solid #eee }
th { border-bottom: 1px solid #888 } .n { text-align: right }
summary { cursor: pointer; font-weight: 600; margin: .5em 0 }
#icicle svg { width: 100%; display: block } #icicle rect { stroke: #fff; cursor: pointer }
#icicle text { font: 11px ui-monospace, monospace; pointer-events: none }
#what { min-height: 1.4em; font-family: ui-monospace, monospace }
)";

// A row a depth, a rectangle a call path, as wide as its time; a click makes it the whole, a click
// on the whole goes back.
inline constexpr std::string_view kPageScript = R"(
(() => {
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
  function draw(top) {
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
  addEventListener('resize', () => draw(root));
})();
)";

}  // namespace pellucid::profile
