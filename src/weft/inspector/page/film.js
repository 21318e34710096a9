// The film strip: a bar for each call, stacked by source; cached tokens are hatched.
// Bars are a few long paths, not an element each: five hundred of them stay cheap.
import { html, useState, useEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import { brief, cost, many, number, useMemory, useWidth } from "./common.js";

export const SOURCES = ["system", "tools", "schema", "user", "model", "results", "foreign", "summary", "state", "overhead"];
const WORDS = { foreign: "other agents", overhead: "format", results: "tool results" };
const HIGH = 130, LANE = 15, TOP = 6;
// A lane is an agent, in one branch or one call of it as a tool.
const laneOf = (frame) => [frame.agent, frame.scope || frame.branch || ""].filter(Boolean).join(" · ");
// What a lane is called: the agent; of one that has several, its branch, or which call of it as a tool it is.
function nameLanes(frames) {
  const lanes = new Map(), names = new Map();
  for (const f of frames) lanes.set(f.agent, (lanes.get(f.agent) || new Map()).set(laneOf(f), f));
  for (const [agent, list] of lanes) {
    let runs = 0;
    for (const [lane, f] of list) names.set(lane, list.size === 1 ? agent : f.scope ? `${agent} · ${++runs}` : [agent, f.branch].filter(Boolean).join(" · "));
  }
  return names;
}

// Where each call stands on the axis of time. A pause longer than some calls is cut, else nothing else would be seen.
function placeByTime(frames, room) {
  const took = frames.map((f) => Math.max(0.001, f.seconds || 0)), longest = 6 * [...took].sort((a, b) => a - b)[Math.floor(took.length * 0.8)];
  const starts = frames.map((f, i) => f.time - took[i]), order = frames.map((_, i) => i).sort((a, b) => starts[a] - starts[b]);
  const xs = [], ws = [];
  let at = 0, last = starts[order[0]], end = last;
  for (const i of order) {
    const gap = Math.max(0, starts[i] - Math.max(end, last));
    at += Math.min(starts[i] - last, starts[i] - last - gap + Math.min(gap, longest));
    xs[i] = at;
    last = starts[i];
    end = Math.max(end, starts[i] + took[i]);
  }
  const whole = Math.max(...xs.map((x, i) => x + took[i]), 0.001), scale = (room - 4) / whole;
  return { xs: xs.map((x) => x * scale), ws: took.map((t) => Math.max(2, t * scale)) };
}

export function Film({ film, ghosts, now, go, most: given, label = "one bar for each model call" }) {
  const frames = film.frames, box = useRef(null), width = useWidth(box);
  const [zoom, setZoom] = useState(1);
  const [over, setOver] = useState(0);
  const [isTimed, setTimed] = useMemory("by time", false);
  // On a phone the strip is folded away: its caption and the arrows stay.
  const [isFolded, setFolded] = useState(() => innerWidth < 600);
  const hasTimes = frames.length > 1 && frames.every((f) => f.time > 1e8) && frames.some((f) => f.seconds !== null);
  const names = useMemo(() => nameLanes(frames), [frames]), lanes = useMemo(() => [...names.keys()], [names]);
  const side = lanes.length > 1 ? 120 : 48;
  const fit = (Math.max(280, width || 1100) - side - 10) / Math.max(1, frames.length);
  const wide = Math.max(2, Math.min(72, Math.max(2, Math.min(72, fit)) * zoom));
  const most = given || highest(film, ghosts);
  const high = TOP + HIGH + 32 + LANE * lanes.length;
  const places = useMemo(() => (hasTimes && isTimed ? placeByTime(frames, Math.max(frames.length * Math.min(wide, 4), (Math.max(280, width || 1100) - side - 12) * zoom)) : { xs: frames.map((_, i) => i * wide), ws: frames.map(() => wide) }), [frames, wide, isTimed, hasTimes, width, zoom, side]);
  const drawn = useMemo(() => draw(frames, ghosts, { side, wide, most, lanes, names, places }), [frames, ghosts, side, wide, most, lanes, places]);
  useEffect(() => {
    const at = side + (places.xs[now - 1] || 0), view = box.current;
    if (view && now && (at < view.scrollLeft + side || at > view.scrollLeft + view.clientWidth - 2 * wide)) view.scrollLeft = at - view.clientWidth / 2;
  }, [now, wide, width, places]);
  // The call under the pointer; in the lanes, that of its lane.
  const at = (e) => {
    const frame = e.currentTarget.getBoundingClientRect(), x = e.clientX - frame.left - side, lane = lanes[Math.floor((e.clientY - frame.top - TOP - HIGH - 13) / LANE)];
    if (x < -2) return 0;
    let best = -1, near = Math.max(wide, 24);
    places.xs.forEach((from, i) => { const off = x < from ? from - x : Math.max(0, x - from - places.ws[i]); if (off < near && (!lane || lanes.length < 2 || !isTimed || laneOf(frames[i]) === lane)) { near = off; best = i; } });
    return best + 1;
  };
  const mark = (n, name) => n > 0 && html`<rect class=${name} data-step=${n} x=${side + places.xs[n - 1] - 1} y="0" width=${Math.max(3, places.ws[n - 1])} height=${high} />`;
  const shown = over || now;
  if (isFolded) return html`<div class="bar folded"><button aria-expanded="false" onClick=${() => setFolded(false)}>show the strip</button><span class="caption" data-testid="caption">${shown > 0 && html`<${Caption} frame=${frames[shown - 1]} ghost=${ghosts && ghosts[shown - 1]} />`}</span><${Failed} frames=${frames} now=${now} go=${go} /></div>`;
  return html`<div>
    <div class="film" ref=${box} data-testid="film" data-frames=${frames.length} tabindex="0" role="slider" aria-label=${label}
      aria-valuemin="1" aria-valuemax=${frames.length} aria-valuenow=${now} aria-valuetext=${now ? describe(frames[now - 1], names) : ""}>
      <svg width=${side + Math.max(...places.xs.map((x, i) => x + places.ws[i])) + 8} height=${high} aria-hidden="true" onClick=${(e) => at(e) && go(at(e))} onMouseMove=${(e) => setOver(at(e))} onMouseLeave=${() => setOver(0)}>
        <defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" stroke="var(--paper)" stroke-width="2" stroke-opacity=".6" /></pattern></defs>
        ${mark(now, "now")}${drawn}${over !== now && mark(over, "over")}</svg></div>
    ${shown > 0 && html`<p class="caption" data-testid="caption"><${Caption} frame=${frames[shown - 1]} ghost=${ghosts && ghosts[shown - 1]} /></p>`}
    <div class="legend dim">${SOURCES.filter((s) => frames.some((f) => f.sources && f.sources[s])).map((s) => html`<span><i class="key" style=${`background: var(--${s})`}></i>${WORDS[s] || s}</span>`)}
      <span><i class="key hatched"></i>cached</span>${ghosts && ghosts.some((g, i) => g && frames[i] && g.tokens > (frames[i].tokens || 0)) && html`<span><i class="key ghostly"></i>plain history</span>`}${frames.some((f) => f.broken) && html`<span><i class="dot red"></i>cache broken</span>`}<${Failed} frames=${frames} now=${now} go=${go} /><span class="grow"></span>
      ${hasTimes && html`<span class="switch" role="group" aria-label="axis of the strip"><button aria-pressed=${!isTimed} class=${isTimed ? "" : "on"} onClick=${() => setTimed(false)}>by call</button><button aria-pressed=${isTimed} class=${isTimed ? "on" : ""} onClick=${() => setTimed(true)}>by time</button></span>`}
      ${frames.length > 20 && html`<span class="bar" role="group" aria-label="zoom of the strip"><button onClick=${() => setZoom(Math.max(1, zoom / 2))} disabled=${zoom <= 1} aria-label="narrower bars">−</button><button onClick=${() => setZoom(Math.min(32, zoom * 2))} disabled=${wide >= 64} aria-label="wider bars">+</button>
        <label>go to call <input type="number" min="1" max=${frames.length} value=${now} aria-label="go to call" onChange=${(e) => Number(e.target.value) && go(Number(e.target.value))} /></label></span>`}</div></div>`;
}

export const highest = (film, ghosts) =>
  film.frames.reduce((n, f, i) => Math.max(n, f.tokens || 0, (ghosts && ghosts[i] && ghosts[i].tokens) || 0), 1);

// How many calls failed; a click goes to the next of them.
function Failed({ frames, now, go }) {
  const failed = frames.filter((f) => f.error);
  if (!failed.length) return null;
  const next = failed.find((f) => f.number > now) || failed[0];
  return html`<button class="link red" data-testid="failed" title=${`go to call ${next.number}`} onClick=${() => go(next.number)}><i class="key framed" aria-hidden="true"></i>${many(failed.length, "call")} failed</button>`;
}

const describe = (f, names) =>
  `${f.number}. ${names.get(laneOf(f))}: ${number(f.tokens)} tokens, ${number(f.cached)} cached, ${cost(f.cost, f.money)}`
  + (f.calls.length ? `; calls ${f.calls.map((c) => c.name).join(", ")}` : "") + (f.error ? `; failed: ${f.error}` : "");

const Caption = ({ frame: f, ghost }) => html`<b>${f.number}. ${f.agent}</b>${laneOf(f) !== f.agent && html` <span class="dim">${f.scope ? (/^conversation \d+$/.test(f.scope) ? "in a conversation of its own" : "called as a tool") : `in ${f.branch}`}</span>`}${f.seconds > 0.05 && html` <span class="dim">${f.seconds.toFixed(1)} s</span>`}
  ${f.problem ? html` <span class="red">the request cannot be rebuilt: ${f.problem}</span>` : html` · ${many(f.tokens, "token")}, <span class="green">${number(f.cached)} cached</span>, ${cost(f.cost, f.money)}`}
  ${f.reported && f.reported.prompt && (f.reported.prompt !== f.tokens || (f.reported.cached || 0) !== f.cached) && html` <span class="dim">· the provider counted ${number(f.reported.prompt)} tokens, ${number(f.reported.cached || 0)} cached</span>`}
  ${ghost && ghost.tokens !== f.tokens && html` <span class="dim">· plain history: ${number(ghost.tokens)} tokens, ${cost(ghost.cost, f.money)}</span>`}
  ${f.calls.length > 0 && html` · calls ${f.calls.map((c) => c.name).join(", ")}`}
  ${f.error && html` · <span class="red">failed: ${f.error}</span>`}
  ${f.broken && html` · <span class="red">the cache broke at ${f.broken.split(": ")[0]}</span>`}`;

const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function draw(frames, ghosts, { side, wide, most, lanes, names, places }) {
  const isTimed = places.ws.some((one) => one !== wide);
  const base = TOP + HIGH, w = isTimed ? Math.min(8, wide) : wide > 6 ? wide - 2 : wide > 3 ? wide - 1 : wide, y = (tokens) => (HIGH * tokens) / most;
  const box = (x, top, h, room = w) => `M${x.toFixed(1)} ${top.toFixed(1)}h${room.toFixed(1)}v${h.toFixed(1)}h-${room.toFixed(1)}z`;
  const fills = new Map(), add = (fill, path) => fills.set(fill, (fills.get(fill) || "") + path);
  let cached = "", ghost = "", shade = "", turns = "", broken = "", calls = "", quiet = "", failed = "", framed = "";
  const labels = [], every = Math.ceil(34 / wide);
  frames.forEach((f, i) => {
    const x = side + places.xs[i], long = isTimed ? places.ws[i] : w, row = base + 15 + LANE * lanes.indexOf(laneOf(f)), plain = ghosts && ghosts[i];
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
    if (f.problem) failed += box(x, base - 4, 4);
    // A call that failed is framed, from its foot to the row of its lane, however small its request is.
    if (f.error) {
      const head = Math.min(top, base - 14) - 2;
      framed += `M${(x + 1).toFixed(1)} ${head.toFixed(1)}h${Math.max(1, w - 2).toFixed(1)}V${base}h-${Math.max(1, w - 2).toFixed(1)}z`;
      failed += box(x, base - 5, 5) + box(x, row, 10, long);
    } else if (f.calls.length) calls += box(x, row, 10, long); else quiet += box(x, row + 3, 4, long);
    if (f.calls.length && long >= 42) labels.push(html`<text class="call" x=${x + 3} y=${row + 8.5}>${clipped(f.calls[0].name, Math.floor((long - 4) / 5.4))}</text>`);
    if (!isTimed && (i + 1) % every === 0 && (wide >= 20 || (i + 1) % (5 * Math.ceil(every / 5)) === 0)) labels.push(html`<text x=${x + w / 2} y=${base + 26 + LANE * lanes.length} text-anchor="middle">${f.number}</text>`);
  });
  const end = side + Math.max(...places.xs.map((x, i) => x + places.ws[i])) + 4;
  return html`
    ${[1, 0.5].map((part) => html`<line class="scale" x1=${side - 4} x2=${end} y1=${base - HIGH * part} y2=${base - HIGH * part} /><text x=${side - 8} y=${base + 4 - HIGH * part + (part === 1 ? 4 : 0)} text-anchor="end">${brief(most * part)}</text>`)}
    ${lanes.length > 1 && lanes.map((lane, i) => html`<text x=${side - 8} y=${base + 23 + LANE * i} text-anchor="end"><title>${lane}</title>${clipped(names.get(lane), 18)}</text>`)}
    <path class="turns" d=${turns} /><path class="shade" d=${shade} /><path class="ghost" d=${ghost} />
    ${[...fills].map(([source, path]) => html`<path data-source=${source} d=${path} fill=${`var(--${source})`} />`)}
    <path data-source="cached" d=${cached} fill="url(#hatch)" /><path class="frame" d=${framed} /><path class="failed" d=${failed} fill="var(--red)" /><path class="broken" d=${broken} fill="var(--red)" />
    <path class="calls" d=${calls} fill="var(--results)" /><path d=${quiet} fill="var(--model)" />${labels}`;
}
