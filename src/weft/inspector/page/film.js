// The film strip: a bar for each call, stacked by source; cached tokens are hatched.
// Bars are a few long paths, not an element each: five hundred of them stay cheap.
import { html, useState, useEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import { brief, cost, many, number, useWidth } from "./common.js";

export const SOURCES = ["system", "tools", "schema", "user", "model", "results", "foreign", "summary", "state", "overhead"];
const HIGH = 130, LANE = 15, TOP = 6;
const laneOf = (frame) => frame.scope || frame.branch || "";

export function Film({ film, ghosts, now, go, most: given, label = "one bar for each model call" }) {
  const frames = film.frames, box = useRef(null), width = useWidth(box);
  const [zoom, setZoom] = useState(1);
  const [over, setOver] = useState(0);
  const lanes = useMemo(() => [...new Set(frames.map(laneOf))], [frames]);
  const side = lanes.length > 1 ? 104 : 48;
  const fit = (Math.max(280, width || 1100) - side - 10) / Math.max(1, frames.length);
  const wide = Math.max(2, Math.min(72, Math.max(2, Math.min(72, fit)) * zoom));
  const most = given || highest(film, ghosts);
  const high = TOP + HIGH + 32 + LANE * lanes.length;
  const drawn = useMemo(() => draw(frames, ghosts, { side, wide, most, lanes }), [frames, ghosts, side, wide, most, lanes]);
  useEffect(() => {
    const at = side + (now - 1) * wide, view = box.current;
    if (view && now && (at < view.scrollLeft + side || at > view.scrollLeft + view.clientWidth - 2 * wide)) view.scrollLeft = at - view.clientWidth / 2;
  }, [now, wide, width]);
  const at = (e) => {
    const n = Math.floor((e.clientX - e.currentTarget.getBoundingClientRect().left - side) / wide) + 1;
    return n >= 1 && n <= frames.length ? n : 0;
  };
  const mark = (n, name) => n > 0 && html`<rect class=${name} data-step=${n} x=${side + (n - 1) * wide - 1} y="0" width=${wide} height=${high} />`;
  const shown = over || now;
  return html`<div>
    <div class="film" ref=${box} data-testid="film" data-frames=${frames.length} tabindex="0" role="slider" aria-label=${label}
      aria-valuemin="1" aria-valuemax=${frames.length} aria-valuenow=${now} aria-valuetext=${now ? describe(frames[now - 1]) : ""}>
      <svg width=${side + frames.length * wide + 8} height=${high} aria-hidden="true" onClick=${(e) => at(e) && go(at(e))} onMouseMove=${(e) => setOver(at(e))} onMouseLeave=${() => setOver(0)}>
        <defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" stroke="var(--paper)" stroke-width="2" stroke-opacity=".6" /></pattern></defs>
        ${mark(now, "now")}${drawn}${over !== now && mark(over, "over")}</svg></div>
    ${shown > 0 && html`<p class="caption" data-testid="caption"><${Caption} frame=${frames[shown - 1]} ghost=${ghosts && ghosts[shown - 1]} /></p>`}
    <div class="legend dim">${SOURCES.filter((s) => frames.some((f) => f.sources && f.sources[s])).map((s) => html`<span><i class="key" style=${`background: var(--${s})`}></i>${s}</span>`)}
      <span><i class="key hatched"></i>cached</span>${ghosts && html`<span><i class="key ghostly"></i>plain history</span>`}${frames.some((f) => f.broken) && html`<span><i class="dot red"></i>prefix broken</span>`}<span class="grow"></span>
      ${frames.length > 20 && html`<span class="bar" role="group" aria-label="zoom of the strip"><button onClick=${() => setZoom(Math.max(1, zoom / 2))} disabled=${zoom <= 1} aria-label="narrower bars">−</button><button onClick=${() => setZoom(Math.min(32, zoom * 2))} disabled=${wide >= 64} aria-label="wider bars">+</button>
        <label>go to step <input type="number" min="1" max=${frames.length} value=${now} aria-label="go to step" onChange=${(e) => Number(e.target.value) && go(Number(e.target.value))} /></label></span>`}</div></div>`;
}

export const highest = (film, ghosts) =>
  film.frames.reduce((n, f, i) => Math.max(n, f.tokens || 0, (ghosts && ghosts[i] && ghosts[i].tokens) || 0), 1);

const describe = (f) =>
  `${f.number}. ${f.agent}${laneOf(f) ? ` on ${laneOf(f)}` : ""}: ${number(f.tokens)} tokens, ${number(f.cached)} cached, ${cost(f.cost, f.money)}`
  + (f.calls.length ? `; calls ${f.calls.map((c) => c.name).join(", ")}` : "") + (f.error ? `; ${f.error}` : "");

const Caption = ({ frame: f, ghost }) => html`<b>${f.number}. ${f.agent}</b>${laneOf(f) && html` <span class="dim">on ${laneOf(f)}</span>`}
  ${f.problem ? html` <span class="red">the request cannot be rebuilt: ${f.problem}</span>` : html` · ${many(f.tokens, "token")}, <span class="green">${number(f.cached)} cached</span>, ${cost(f.cost, f.money)}`}
  ${f.reported && f.reported.prompt && html` <span class="dim">· the provider counted ${number(f.reported.prompt)} tokens, ${number(f.reported.cached || 0)} cached</span>`}
  ${ghost && ghost.tokens !== f.tokens && html` <span class="dim">· plain history: ${number(ghost.tokens)} tokens, ${cost(ghost.cost, f.money)}</span>`}
  ${f.calls.length > 0 && html` · calls ${f.calls.map((c) => c.name).join(", ")}`}
  ${f.error && html` · <span class="red">${f.error}</span>`}
  ${f.broken && html` · <span class="red">prefix broken at ${f.broken.split(": ")[0]}${f.read_again ? `, ${many(f.read_again, "token")} read again` : ""}</span>`}`;

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function draw(frames, ghosts, { side, wide, most, lanes }) {
  const base = TOP + HIGH, w = wide > 6 ? wide - 2 : wide > 3 ? wide - 1 : wide, y = (tokens) => (HIGH * tokens) / most;
  const box = (x, top, h) => `M${x.toFixed(1)} ${top.toFixed(1)}h${w.toFixed(1)}v${h.toFixed(1)}h-${w.toFixed(1)}z`;
  const fills = new Map(), add = (fill, path) => fills.set(fill, (fills.get(fill) || "") + path);
  let cached = "", ghost = "", shade = "", turns = "", broken = "", calls = "", quiet = "", failed = "";
  const labels = [], every = Math.ceil(34 / wide);
  frames.forEach((f, i) => {
    const x = side + i * wide, row = base + 15 + LANE * lanes.indexOf(laneOf(f)), plain = ghosts && ghosts[i];
    let top = base;
    for (const s of SOURCES) if (f.sources && f.sources[s]) { const h = y(f.sources[s]); top -= h; add(s, box(x, top, h)); }
    if (f.cached) cached += box(x, base - y(f.cached), y(f.cached));
    if (plain && plain.tokens > (f.tokens || 0)) {
      const line = base - y(plain.tokens);
      ghost += `M${x.toFixed(1)} ${line.toFixed(1)}h${wide.toFixed(1)}`;
      shade += box(x, line, y(plain.tokens) - y(f.tokens || 0));
    }
    if (i && f.invocation !== frames[i - 1].invocation && wide >= 4) turns += `M${(x - 1).toFixed(1)} ${TOP}V${base + 8}`;
    if (f.broken) broken += `M${(x + w / 2 - 2.5).toFixed(1)} ${base + 7}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0`;
    if (f.problem || f.error) failed += box(x, base - 4, 4);
    if (f.calls.length) calls += box(x, row, 10); else quiet += box(x, row + 4, 2);
    if (f.calls.length && wide >= 44) labels.push(html`<text class="call" x=${x + 3} y=${row + 8.5}>${clipped(f.calls[0].name, Math.floor((w - 4) / 5.4))}</text>`);
    if ((i + 1) % every === 0 && (wide >= 20 || (i + 1) % (5 * Math.ceil(every / 5)) === 0)) labels.push(html`<text x=${x + w / 2} y=${base + 26 + LANE * lanes.length} text-anchor="middle">${f.number}</text>`);
  });
  const end = side + frames.length * wide + 4;
  return html`
    ${[1, 0.5].map((part) => html`<line class="scale" x1=${side - 4} x2=${end} y1=${base - HIGH * part} y2=${base - HIGH * part} /><text x=${side - 8} y=${base + 4 - HIGH * part + (part === 1 ? 4 : 0)} text-anchor="end">${brief(most * part)}</text>`)}
    ${lanes.length > 1 && lanes.map((lane, i) => html`<text x=${side - 8} y=${base + 23 + LANE * i} text-anchor="end"><title>${lane || "outside of branches"}</title>${lane.length > 15 ? `…${lane.slice(-14)}` : lane || "main"}</text>`)}
    <path class="turns" d=${turns} /><path class="shade" d=${shade} /><path class="ghost" d=${ghost} />
    ${[...fills].map(([source, path]) => html`<path data-source=${source} d=${path} fill=${`var(--${source})`} />`)}
    <path data-source="cached" d=${cached} fill="url(#hatch)" /><path d=${failed} fill="var(--red)" /><path class="broken" d=${broken} fill="var(--red)" />
    <path class="calls" d=${calls} fill="var(--results)" /><path d=${quiet} fill="var(--model)" />${labels}`;
}
