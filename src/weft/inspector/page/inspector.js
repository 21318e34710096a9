// The inspector: one page over the JSON of /inspect/api, or over data embedded in the page.
// Texts are only ever set as text. Nothing is loaded from outside.
import { html, render, useState, useEffect, useMemo, useRef, useCallback } from "./vendor/htm-preact.js";

const SOURCES = ["system", "tools", "schema", "user", "model", "results", "foreign", "summary", "state", "overhead"];
const TABS = [
  ["request", "Request"], ["left", "Left out"], ["cache", "Cache"], ["whatif", "What if"], ["bisect", "Bisect"],
  ["weight", "Dead weight"], ["graph", "Graph"], ["trust", "Trust"], ["events", "Events"], ["chat", "Chat"],
];
const embedded = window.WEFT_DATA || null;
const texts = window.WEFT_TEXTS || [];

const parts = window.WEFT_PARTS || [];

// An exported file keeps each text and each part of a list once: an answer has their numbers.
const ends = (stretches) => { let at = 0; return stretches.map(([length, ...rest]) => [(at += length), ...rest]); };
function whole(data) {
  if (!data || !data.packed) return data;
  const full = { ...data };
  for (const name of data.packed) full[name] = data[name].flatMap((n) => parts[n]);
  for (const name of ["segments", "ages"]) if (data.packed.includes(name)) full[name] = ends(full[name]);
  if (data.packed.includes("chains")) full.chains = Object.fromEntries(full.chains);
  if (data.packed.includes("rows")) full.rows = full.rows.map((row) => ({ ...row, text: texts[row.text] }));
  if (data.packed.includes("text")) full.text = full.text.map((n) => texts[n]).join("");
  return full;
}
const number = (n) => (n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en"));
const share = (a, b) => (b ? `${Math.round((100 * a) / b)}%` : "–");
const cost = (c, money) =>
  c === undefined || c === null ? "–" : money ? (Math.abs(c) >= 10 ? `$${c.toFixed(2)}` : `$${c.toFixed(4)}`) : `${number(c)} tok`;

async function ask(path, params = {}, options = {}) {
  const given = Object.entries(params).filter(([, v]) => v !== "" && v !== undefined && v !== null);
  const query = new URLSearchParams(given).toString();
  const key = query ? `${path}?${query}` : path;
  if (embedded) {
    if (key in embedded) return whole(embedded[key]);
    throw new Error("This file holds no answer to that. Open the session with `weft inspect` to ask it.");
  }
  const response = await fetch(`inspect/api/${key}`, { credentials: "same-origin", ...options });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error([body.detail || body.title || response.statusText, body.hint].filter(Boolean).join(" — "));
  return body;
}

function useAnswer(path, params, ready = true) {
  const [state, set] = useState({ data: null, error: "" });
  const key = JSON.stringify([path, params, ready]);
  useEffect(() => {
    let live = true;
    if (!ready) return undefined;
    set((old) => ({ ...old, error: "" }));
    ask(path, params).then((data) => live && set({ data, error: "" }), (e) => live && set({ data: null, error: String(e.message || e) }));
    return () => { live = false; };
  }, [key]);
  return state;
}

const Problem = ({ text }) => (text ? html`<div class="error" role="alert">${text}</div>` : null);
const Waiting = () => html`<p class="dim">Loading…</p>`;

// One rule colours all characters of the origin under the pointer, wherever they stand.
const lit = document.createElement("style");
document.head.append(lit);
function light(origin) {
  lit.textContent = origin === null ? "" : `[data-o="${origin}"] { background: var(--mark) !important; }`;
}

function App() {
  const [session, setSession] = useState(() => decodeURIComponent(location.hash.slice(1).split("/")[0] || ""));
  const [step, setStep] = useState(0);
  const [tab, setTab] = useState("request");
  const [version, setVersion] = useState(0);
  const [help, setHelp] = useState(false);
  const film = useAnswer("film", { session, version: version || "" }, Boolean(session));
  const ghosts = useAnswer("ghosts", { session, version: version || "" }, Boolean(session && film.data));
  const frames = film.data ? film.data.frames : [];
  const now = step || frames.length;
  const go = useCallback((n) => setStep(Math.max(1, Math.min(frames.length, n))), [frames.length]);
  useEffect(() => { if (session) location.hash = `${encodeURIComponent(session)}/${now}/${tab}`; }, [session, now, tab]);
  useEffect(() => {
    const [, n, t] = location.hash.slice(1).split("/");
    if (Number(n)) setStep(Number(n));
    if (TABS.some(([id]) => id === t)) setTab(t);
  }, []);
  useEffect(() => {
    const press = (e) => {
      if (/INPUT|TEXTAREA|SELECT/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "ArrowLeft") go(now - 1);
      else if (e.key === "ArrowRight") go(now + 1);
      else if (e.key === "Home") go(1);
      else if (e.key === "End") go(frames.length);
      else if (e.key === "?") setHelp((h) => !h);
      else if (e.key === "Escape") { setHelp(false); light(null); }
      else if (/^[0-9]$/.test(e.key)) { const t = TABS[(Number(e.key) + 9) % 10]; if (t) setTab(t[0]); }
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [now, frames.length, go]);
  useEffect(() => {
    if (embedded || !session || !film.data) return undefined;
    const source = new EventSource(`inspect/api/live?session=${encodeURIComponent(session)}&after=${film.data.session.events}`);
    source.addEventListener("grown", () => setVersion((v) => v + 1));
    source.addEventListener("gone", () => { source.close(); setVersion((v) => v + 1); });
    return () => source.close();
  }, [session, film.data && film.data.session.events]);
  if (!session) return html`<${Sessions} open=${(id, view) => { setSession(id); setStep(0); setTab(view || "request"); }} />`;
  const leave = () => { setSession(""); history.replaceState(null, "", location.pathname + location.search); };
  return html`
    <header>
      <div class="bar">
        ${!embedded && html`<button onClick=${leave} title="all sessions">‹ Sessions</button>`}
        <h1>${film.data ? film.data.session.id : session}</h1>
        ${film.data && html`<${Totals} summary=${film.data.session} />`}
        <span class="grow"></span>
        ${!embedded && html`<a class="hide" href=${`inspect/api/export?session=${encodeURIComponent(session)}`} download>Export as one file</a>`}
        <button onClick=${() => go(now - 1)} aria-label="step before">←</button>
        <span data-testid="step">${now} / ${frames.length}</span>
        <button onClick=${() => go(now + 1)} aria-label="next step">→</button>
        <button onClick=${() => setHelp(!help)} aria-label="help">?</button>
      </div>
      <nav class="tabs" role="tablist">
        ${TABS.map(([id, name]) => html`<button role="tab" aria-selected=${tab === id} class=${tab === id ? "on" : ""} onClick=${() => setTab(id)}>${name}</button>`)}
      </nav>
    </header>
    <main>
      ${help && html`<p class="dim">← → step, Home End first and last, 1 to 0 tabs, ? this line, Esc clears the light.</p>`}
      <${Problem} text=${film.error} />
      ${film.data && film.data.notice && html`<p class="dim">${film.data.notice}</p>`}
      ${frames.length > 0 && html`<${Film} film=${film.data} ghosts=${ghosts.data} now=${now} go=${go} />`}
      ${film.data && frames.length === 0 && tab !== "chat" && html`<div class="empty"><b>Nothing was answered yet.</b><p class="dim">${embedded ? "" : html`<button onClick=${() => setTab("chat")}>talk to the agent</button>`}</p></div>`}
      ${film.data && (frames.length > 0 || tab === "chat") && html`<${View} key=${tab} tab=${tab} session=${session} step=${now} version=${version} film=${film.data} go=${go} open=${(id) => { setSession(id); setStep(0); }} />`}
    </main>`;
}

const brief = (n) => (n >= 999500 ? `${(n / 1e6).toFixed(1)}M` : n >= 999.5 ? `${(n / 1e3).toFixed(n < 9950 ? 1 : 0)}k` : String(Math.round(n)));
const words = (origin) => origin.words.replace(/\b([0-9a-f]{8})[0-9a-f]{24}\b/g, "$1…");
const ago = (time) => { const s = Math.max(0, Date.now() / 1000 - time); return s < 90 ? "just now" : s < 5400 ? `${Math.round(s / 60)} min ago` : s < 129600 ? `${Math.round(s / 3600)} h ago` : new Date(time * 1000).toLocaleDateString(); };
const Notes = ({ list }) => list.map((text) => { const kind = (/(error|warning|info)\[/.exec(text) || [, "info"])[1]; return html`<pre class=${`text note ${kind}`}>${text}</pre>`; });

const Totals = ({ summary: s }) => html`<span class="dim hide">
  ${s.steps} calls · ${number(s.tokens)} tokens · ${share(s.cached, s.tokens)} cached · ${cost(s.cost, s.money)}
  ${s.errors ? html` · <span class="red">${s.errors} errors</span>` : ""}
  ${s.waiting ? html` · <span class="red">${s.waiting} waiting</span>` : ""}</span>`;

function Sessions({ open }) {
  const [search, setSearch] = useState("");
  const { data, error } = useAnswer("sessions", {});
  const words = search.toLowerCase();
  const rows = (data || []).filter((s) => JSON.stringify(s).toLowerCase().includes(words));
  return html`
    <header><div class="bar"><h1>Weft inspector</h1><span class="dim hide">every request, and why it is what it is</span><span class="grow"></span>
      <input type="search" placeholder="search" aria-label="search sessions" value=${search} onInput=${(e) => setSearch(e.target.value)} /></div></header>
    <main class="list">
      <${Problem} text=${error} />
      ${!data && !error && html`<${Waiting} />`}
      ${data && rows.length === 0 && html`<div class="empty"><b>${data.length ? "No session fits that." : "No session yet."}</b><p class="dim">${data.length ? html`<button onClick=${() => setSearch("")}>show all ${data.length}</button>` : "Run the agent, and it appears here."}</p></div>`}
      ${rows.length > 0 && html`<table data-testid="sessions"><thead><tr><th>session</th><th>app</th><th>user</th><th class="n">events</th><th class="n">calls</th><th class="n">tokens</th><th class="n">cached</th><th class="n">cost</th><th></th><th class="n">last</th></tr></thead>
        <tbody>${rows.map((s) => html`<tr class="pick" tabindex="0" onClick=${() => open(s.key)} onKeyDown=${(e) => e.key === "Enter" && open(s.key)}>
          <td><b>${s.id}</b></td><td>${s.app}</td><td>${s.user}</td><td class="n">${number(s.events)}</td><td class="n">${number(s.steps)}</td><td class="n">${s.tokens ? number(s.tokens) : "–"}</td>
          <td class="n">${s.tokens ? share(s.cached, s.tokens) : "–"}</td><td class="n">${s.tokens ? cost(s.cost, s.money) : "–"}</td>
          <td>${s.errors ? html`<span class="badge red">${s.errors} ${s.errors === 1 ? "error" : "errors"}</span>` : ""} ${s.waiting ? html`<button class="badge" title="see the question, and answer it" onClick=${(e) => { e.stopPropagation(); open(s.key, "chat"); }} onKeyDown=${(e) => e.stopPropagation()}>${s.waiting} waiting: answer</button>` : ""}</td>
          <td class="n dim" title=${s.updated ? new Date(s.updated * 1000).toLocaleString() : ""}>${s.updated ? ago(s.updated) : ""}</td></tr>`)}</tbody></table>`}
    </main>`;
}

// The film strip: a bar for each call, stacked by source; cached tokens are hatched.
function Film({ film, ghosts, now, go }) {
  const frames = film.frames, box = useRef(null);
  const side = 48, wide = Math.max(6, Math.min(48, 1150 / Math.max(1, frames.length))), high = 130;
  const lanes = [...new Set(frames.map((f) => f.scope || f.branch || ""))];
  const most = Math.max(1, ...frames.map((f, i) => Math.max(f.tokens || 0, ghosts && ghosts[i] ? ghosts[i].tokens : 0)));
  const y = (tokens) => (high * tokens) / most;
  useEffect(() => {
    const at = side + (now - 1) * wide, view = box.current;
    if (view && (at < view.scrollLeft || at > view.scrollLeft + view.clientWidth - wide)) view.scrollLeft = at - view.clientWidth / 2;
  }, [now, wide]);
  return html`<div class="film" ref=${box} data-testid="film"><svg width=${side + frames.length * wide + 8} height=${high + 30 + 12 * lanes.length} role="img" aria-label="one bar for each model call">
    <defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="5" stroke="var(--paper)" stroke-width="2" stroke-opacity=".65" /></pattern></defs>
    ${[1, 0.5].map((part) => html`<line class="scale" x1=${side - 4} x2=${side + frames.length * wide + 4} y1=${high + 4 - high * part} y2=${high + 4 - high * part} /><text x=${side - 8} y=${high + 8 - high * part + (part === 1 ? 4 : 0)} text-anchor="end">${brief(most * part)}</text>`)}
    ${frames.map((f, i) => {
      const x = side + i * wide, w = Math.max(2, wide - 2), ghost = ghosts && ghosts[i];
      let top = high + 4;
      const lane = lanes.indexOf(f.scope || f.branch || "");
      return html`<g>
        ${SOURCES.filter((s) => f.sources && f.sources[s]).map((s) => { const h = y(f.sources[s]); top -= h; return html`<rect x=${x} y=${top} width=${w} height=${h} fill=${`var(--${s})`} />`; })}
        ${f.cached ? html`<rect x=${x} y=${high + 4 - y(f.cached)} width=${w} height=${y(f.cached)} fill="url(#hatch)" />` : null}
        ${ghost && ghost.tokens > (f.tokens || 0) ? html`<rect class="ghost" x=${x} y=${high + 4 - y(ghost.tokens)} width=${w} height=${y(ghost.tokens) - y(f.tokens || 0)} />` : null}
        ${(i + 1) % Math.ceil(36 / wide) === 0 || now === f.number ? html`<text x=${x + w / 2} y=${high + 24 + 12 * lanes.length} text-anchor="middle">${now === f.number || (i + 1) % (Math.ceil(36 / wide) * (wide < 20 ? 5 : 1)) === 0 ? f.number : ""}</text>` : null}
        ${f.broken ? html`<circle cx=${x + w / 2} cy=${high + 9} r="2.5" fill="var(--red)" />` : null}
        ${f.calls.length ? html`<rect x=${x} y=${high + 14 + 12 * lane} width=${w} height="6" rx="2" fill="var(--results)" />` : html`<rect x=${x} y=${high + 16 + 12 * lane} width=${w} height="2" fill="var(--model)" />`}
        <rect class=${`hit ${now === f.number ? "now" : ""}`} data-step=${f.number} x=${x - 1} y="0" width=${wide} height=${high + 30 + 12 * lanes.length} onClick=${() => go(f.number)}>
          <title>${`${f.number}. ${f.agent}${f.branch ? ` on ${f.branch}` : ""}: ${number(f.tokens)} tokens, ${number(f.cached)} cached, ${cost(f.cost, f.money)}${ghost ? `\nplain history: ${number(ghost.tokens)} tokens, ${cost(ghost.cost, f.money)}` : ""}${f.broken ? `\n${f.broken}` : ""}${f.calls.length ? `\ncalls ${f.calls.map((c) => c.name).join(", ")}` : ""}${f.problem ? `\n${f.problem}` : ""}`}</title></rect>
      </g>`;
    })}</svg></div>
    <div class="legend dim">${SOURCES.filter((s) => frames.some((f) => f.sources && f.sources[s])).map((s) => html`<span><i class="key" style=${`background: var(--${s})`}></i>${s}</span>`)}<span>hatched: cached</span><span>dashed: plain history</span><span><span class="red">●</span> prefix broken</span></div>`;
}

function View(props) {
  const views = { request: Request, left: LeftOut, cache: Cache, whatif: WhatIf, bisect: Bisect, weight: DeadWeight, graph: Graph, trust: Trust, events: Events, chat: Chat };
  return html`<${views[props.tab]} ...${props} />`;
}

// A request: as messages, or as the JSON that is sent.
function Request({ session, step, version, film }) {
  const { data, error } = useAnswer("request", { session, step });
  const [raw, setRaw] = useState(false);
  const [picked, setPicked] = useState(null);
  useEffect(() => setPicked(null), [step, session]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div class="bar"><button class=${raw ? "" : "on"} onClick=${() => setRaw(false)}>Messages</button><button class=${raw ? "on" : ""} onClick=${() => setRaw(true)}>Raw JSON</button>
      <span class="dim">${data.agent} → ${data.model} · ${data.dialect} · ${number(data.tokens)} tokens · ${data.cost}</span></div>
    <${Notes} list=${data.diagnostics} />
    <${Spans} view=${data} raw=${raw} picked=${picked} pick=${setPicked} />`;
}

function Spans({ view, raw, picked, pick }) {
  const over = (e) => { const o = e.target.closest("[data-o]"); light(o ? o.dataset.o : picked); };
  const press = (e) => { const o = e.target.closest("[data-o]"); pick(o ? Number(o.dataset.o) : null); light(o ? o.dataset.o : null); };
  return html`<div class="columns"><div onMouseOver=${over} onMouseLeave=${() => light(picked)} onClick=${press}>
      ${raw ? html`<${Raw} view=${view} />` : html`<${Messages} view=${view} />`}</div>
    <${Side} view=${view} picked=${picked} pick=${pick} /></div>`;
}

const Messages = ({ view }) => html`<div data-testid="messages">${view.rows.map((row, i) => html`<div class="row" style=${`border-color: var(--${row.source})`} key=${i}>
    <div class="what"><b>${row.role ? `${row.role} ${row.kind}` : row.kind}</b><span>${number(row.tokens)} tok</span><span>${words(view.origins[row.origin])}</span><span>${row.stability}</span>${row.shared && html`<span class="green">as before</span>`}<span class="hide">${row.pointer}</span></div>
    <div class="text">${pieces(row).map(([text, o]) => html`<span data-o=${o} class=${view.origins[o].kind}>${text}</span>`)}</div></div>`)}</div>`;

function pieces(row) {
  if (!row.pieces.length) return [[row.text, row.origin]];
  const out = []; let start = 0;
  const chars = [...row.text].length === row.text.length ? null : [...row.text];
  for (const [end, origin] of row.pieces) { out.push([chars ? chars.slice(start, end).join("") : row.text.slice(start, end), origin]); start = end; }
  return out;
}

// The JSON as lines that are only drawn where they can be seen. Offsets are of the text itself.
function Raw({ view }) {
  const lines = useMemo(() => layOut(view), [view]);
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const first = Math.max(0, Math.floor(top / 18) - 20), last = Math.min(lines.length, first + 120);
  return html`<div class="raw text" ref=${box} data-testid="raw" data-lines=${lines.length} onScroll=${(e) => setTop(e.target.scrollTop)}><div style=${`height: ${lines.length * 18}px`}>
    ${lines.slice(first, last).map((line, i) => html`<div class="line" key=${first + i} style=${`top: ${(first + i) * 18}px; padding-left: ${0.6 + line.depth}rem`}>${line.spans.map(([text, o, at]) => html`<span data-o=${o} data-at=${at}>${text}</span>`)}</div>`)}</div></div>`;
}

function layOut(view) {
  const chars = [...view.text].length === view.text.length ? view.text : [...view.text];
  const cut = (a, b) => (typeof chars === "string" ? chars.slice(a, b) : chars.slice(a, b).join(""));
  const breaks = []; let depth = 0, quoted = false;
  const stops = [[0, 0]];
  for (let i = 0; i < chars.length; i++) {
    const c = chars[i];
    if (quoted) { if (c === "\\") i++; else if (c === '"') quoted = false; continue; }
    if (c === '"') quoted = true;
    else if (c === "{" || c === "[") { depth++; stops.push([i + 1, depth]); }
    else if (c === "}" || c === "]") { depth--; stops.push([i, depth]); }
    else if (c === ",") stops.push([i + 1, depth]);
  }
  stops.push([chars.length, 0]);
  for (let i = 0; i + 1 < stops.length; i++) for (let at = stops[i][0]; at < stops[i + 1][0]; at += 160) breaks.push([at, Math.min(at + 160, stops[i + 1][0]), stops[i][1]]);
  const lines = []; let s = 0;
  for (const [from, to, d] of breaks) {
    const spans = []; let at = from;
    while (at < to) {
      while (view.segments[s][0] <= at) s++;
      const end = Math.min(to, view.segments[s][0]);
      spans.push([cut(at, end), view.segments[s][1], at]); at = end;
    }
    lines.push({ depth: d, spans });
  }
  return lines;
}

function Side({ view, picked, pick }) {
  const origin = picked === null ? null : view.origins[picked];
  if (!origin) return html`<aside class="side origins"><b>Origins</b><p class="dim">Hover any character, or an origin here. Click to keep it lit.</p>
    ${view.origins.map((o, i) => html`<button data-origin=${i} onMouseOver=${() => light(i)} onMouseLeave=${() => light(null)} onClick=${() => { pick(i); light(i); }}>${words(o)}${o.place ? html` <span class="dim">${o.place.split("/").pop()}</span>` : ""}</button>`)}</aside>`;
  const chain = (origin.kind === "event" && view.chains[origin.name]) || [];
  return html`<aside class="side" data-testid="origin"><div class="bar"><b>${origin.words}</b><span class="grow"></span><button onClick=${() => { pick(null); light(null); }}>close</button></div>
    ${origin.place && html`<p class="mono">${origin.place}</p>`}
    ${origin.author && html`<p class="dim">said by ${origin.author}</p>`}
    ${chain.length ? html`<p>Passes that touched it:</p>` : html`<p class="dim">No pass touched it: it is sent as it was written.</p>`}
    ${chain.map((one) => html`<div class="chain"><b>${one.pass}</b> <span class="dim">${one.reason}</span><pre class="text"><del>${short(one.before)}</del></pre>${one.after === null ? html`<i>left out</i>` : html`<pre class="text"><ins>${short(one.after)}</ins></pre>`}</div>`)}</aside>`;
}
const short = (text, most = 1200) => (text.length > most ? `${text.slice(0, most)}…` : text);

function LeftOut({ session, step }) {
  const { data, error } = useAnswer("request", { session, step });
  const [forced, setForced] = useState(null);
  useEffect(() => setForced(null), [session, step]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const groups = new Map();
  for (const row of data.left_out) { const k = `${row.pass}: ${row.reason}`; groups.set(k, [...(groups.get(k) || []), row]); }
  const force = (row) => ask("force", { session, step, events: data.origins[row.origin].name }).then((answer) => setForced({ answer }), (e) => setForced({ error: e.message }));
  return html`<div data-testid="left-out">
    ${forced && (forced.error ? html`<${Problem} text=${forced.error} />` : html`<div class="error"><${Compared} a=${forced.answer} /><pre class="text">${forced.answer.code}</pre></div>`)}
    ${groups.size === 0 && html`<p class="dim">Nothing was left out: the request holds all that the agent may see.</p>`}
    ${[...groups].map(([reason, rows]) => html`<details open><summary><b>${reason}</b> <span class="dim">${rows.length} × · ${number(rows.reduce((n, r) => n + r.tokens, 0))} tokens · ${cost(rows.reduce((n, r) => n + r.price, 0), rows[0].money)} to put back</span></summary>
      <table><tbody>${rows.slice(0, 200).map((row) => html`<tr><td class="n">${number(row.tokens)}</td><td class="n">${cost(row.price, row.money)}</td><td>${words(data.origins[row.origin])}</td><td><pre class="text"><del>${short(row.text, 400)}</del></pre></td>
        <td>${data.origins[row.origin].kind === "event" && html`<button onClick=${() => force(row)}>force in</button>`}</td></tr>`)}</tbody></table></details>`)}
    <h2>Passes</h2><table><thead><tr><th>pass</th><th class="n">dropped</th><th class="n">changed</th><th class="n">added</th><th class="n">moved</th><th class="n">tokens</th></tr></thead>
      <tbody>${data.passes.map((p) => html`<tr class=${p.dropped || p.changed || p.added || p.moved ? "" : "dim"}><td>${p.name}</td><td class="n">${p.dropped || ""}</td><td class="n">${p.changed || ""}</td><td class="n">${p.added || ""}</td><td class="n">${p.moved || ""}</td><td class="n">${p.before ? `${number(p.before)} → ${number(p.after)}` : p.remark}</td></tr>`)}</tbody></table></div>`;
}

const Compared = ({ a }) => html`<p data-testid="compared"><b>${number(a.tokens)}</b> tokens instead of ${number(a.tokens_now)} (${a.tokens >= a.tokens_now ? "+" : ""}${number(a.tokens - a.tokens_now)}), <b>${cost(a.cost, a.money)}</b> instead of ${cost(a.cost_now, a.money)}${a.prefix === undefined ? "" : html`, prefix ${number(a.prefix)} instead of ${number(a.prefix_now)}, cached ${number(a.cached)} instead of ${number(a.cached_now)}`}</p>`;

function Cache({ session, step }) {
  const { data, error } = useAnswer("cache", { session, step });
  const request = useAnswer("request", { session, step });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data || !request.data) return html`<${Waiting} />`;
  const text = request.data.text;
  let start = 0;
  const parts = data.ages.map(([end, age]) => { const part = [text.slice(start, end), age]; start = end; return part; });
  return html`<div data-testid="cache"><p>${number(data.cached)} of ${number(data.total)} tokens cached (${share(data.cached, data.total)})${data.exact ? "" : ", predicted"}; ${cost(data.cost, data.money)} for the request, ${cost(data.saved, data.money)} saved by the cache${data.lost ? html`, <b class="red">${cost(data.lost, data.money)} lost to a changed prefix</b>` : ""}.</p>
    ${data.first ? html`<p class="dim">The first request of this agent: nothing before it to compare.</p>` : html`<h2>First difference: character ${number(data.at)}, byte ${number(data.byte)}</h2>
      ${data.broken ? html`<p class="red">${data.broken}</p>` : html`<p class="green">The request before is whole at the start of this one: only new turns follow.</p>`}
      <div class="pairs"><div><b class="dim">before</b><pre class="text">${data.before.slice(0, Math.min(400, data.at))}<div class="cliff"></div>${data.before.slice(Math.min(400, data.at))}</pre></div>
      <div><b class="dim">now</b><pre class="text">${data.after.slice(0, Math.min(400, data.at))}<div class="cliff"></div>${data.after.slice(Math.min(400, data.at))}</pre></div></div>`}
    <h2>How long each part stayed unchanged</h2><p class="dim">The greener, the more requests in a row had it (up to 12).</p>
    <pre class="text">${parts.map(([t, age]) => html`<span title=${`unchanged in ${age} requests before`} style=${`background: hsl(${Math.min(120, age * 10)} 60% 50% / .22)`}>${short(t, 600)}</span>`)}</pre></div>`;
}

function WhatIf({ session, step, film }) {
  const [form, setForm] = useState({ policy: "", window: "", budget: "", model: "" });
  const [late, setLate] = useState(form);
  const [whole, setWhole] = useState(null);
  useEffect(() => { const t = setTimeout(() => setLate(form), 150); return () => clearTimeout(t); }, [form]);
  const { data, error } = useAnswer("what-if", { session, step, ...late });
  const change = (name) => (e) => { setForm({ ...form, [name]: e.target.value }); setWhole(null); };
  const all = () => { setWhole({}); ask("compare", { session, ...late }).then((answer) => setWhole({ answer }), (e) => setWhole({ error: e.message })); };
  const copy = (text) => navigator.clipboard && navigator.clipboard.writeText(text);
  const save = () => ask("test", { session, step, ...late }).then(({ text }) => download(`test_step_${step}.py`, text));
  return html`<div data-testid="whatif"><div class="controls">
      <label>policy<input type="text" placeholder="C.auto().compact()" value=${form.policy} onInput=${change("policy")} /></label>
      <label>last turns<input type="number" min="1" value=${form.window} onInput=${change("window")} /></label>
      <label>budget ${form.budget ? number(form.budget) : ""}<input type="range" min="0" max="100000" step="500" value=${form.budget || 0} onInput=${(e) => change("budget")({ target: { value: e.target.value === "0" ? "" : e.target.value } })} /></label>
      <label>model<input type="text" placeholder="claude-opus-5" value=${form.model} onInput=${change("model")} /></label>
      <button onClick=${() => setForm({ policy: "", window: "", budget: "", model: "" })}>reset</button></div>
    <${Problem} text=${error} />
    ${data && html`<${Compared} a=${data} /><div class="bar"><pre class="text">${data.code}</pre><button onClick=${() => copy(data.code)}>copy as code</button><button onClick=${save}>save as test</button><button onClick=${all}>the whole session</button></div>
      ${whole && whole.error && html`<${Problem} text=${whole.error} />`}
      ${whole && !whole.error && !whole.answer && html`<${Waiting} />`}
      ${whole && whole.answer && html`<${Both} a=${whole.answer} />`}
      <${Spans} view=${data.view} raw=${false} picked=${null} pick=${() => {}} />`}</div>`;
}

function Both({ a }) {
  const [n, t] = [a.now.session, a.then.session];
  const none = () => {};
  return html`<div data-testid="both"><p>As it was: ${number(n.tokens)} tokens, ${cost(n.cost, n.money)}. So: <b>${number(t.tokens)} tokens, ${cost(t.cost, t.money)}</b> (${share(t.cost, n.cost)} of it).</p>
    <${Film} film=${a.now} now=${0} go=${none} /><${Film} film=${a.then} now=${0} go=${none} /></div>`;
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function Bisect({ session, go }) {
  const [text, setText] = useState("");
  const [answer, setAnswer] = useState(null);
  const run = (e) => { e.preventDefault(); ask("bisect", { session, text }).then((data) => setAnswer({ data }), (error) => setAnswer({ error: error.message })); };
  const data = answer && answer.data;
  return html`<div data-testid="bisect"><form class="controls" onSubmit=${run}><label>when did this vanish?<input type="text" required value=${text} onInput=${(e) => setText(e.target.value)} placeholder="a sentence, a name, a number" /></label><button>find</button></form>
    <${Problem} text=${answer && answer.error} />
    ${data && html`<p>${data.born === null ? "The log does not hold it." : `It entered the log with event ${data.born + 1}.`} In view in ${data.steps.filter((s) => s.in_view).length} of ${data.steps.length} requests.</p>
      <p>${data.steps.map((s) => html`<button class=${s.in_view ? "on" : ""} onClick=${() => go(s.number)} title=${s.in_view ? "in view" : "not in view"}>${s.number}</button>`)}</p>
      ${data.vanished ? html`<h2>It vanished at step ${data.vanished.number}</h2>${data.vanished.because.map((b) => html`<div class="chain"><b>${b.pass}</b> <span class="dim">${b.reason}</span><pre class="text"><del>${short(b.text)}</del></pre></div>`)}
        ${data.vanished.because.length === 0 && html`<p class="dim">No pass names it: it was said by ${data.vanished.agent}, or another agent speaks at that step.</p>`}` : html`<p class="green">It never vanished.</p>`}`}</div>`;
}

function DeadWeight({ session }) {
  const { data, error } = useAnswer("dead-weight", { session });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div data-testid="weight"><h2>Tools</h2>${data.tools.length ? html`<table><thead><tr><th>agent</th><th>tool</th><th>called</th><th class="n">tokens</th><th class="n">requests</th><th class="n">paid</th></tr></thead>
      <tbody>${data.tools.map((t) => html`<tr class=${t.called ? "dim" : ""}><td>${t.agent}</td><td>${t.tool}</td><td class=${t.called ? "" : "red"}>${t.called ? "yes" : "never"}</td><td class="n">${number(t.tokens)}</td><td class="n">${t.requests}</td><td class="n">${cost(t.cost, t.money)}</td></tr>`)}</tbody></table>` : html`<p class="dim">No tools.</p>`}
    <h2>State that no request shows</h2>${data.state.length ? html`<table><tbody>${data.state.map((s) => html`<tr><td>${s.key}</td><td class="n">${number(s.size)} characters</td></tr>`)}</tbody></table>` : html`<p class="dim">All that was written was shown.</p>`}</div>`;
}

function Graph({ session, step, film, version }) {
  const { data, error } = useAnswer("picture", { session, version: version || "" });
  const box = useRef(null);
  const frame = film.frames[step - 1];
  useEffect(() => {
    if (!data || !box.current) return;
    const svg = new DOMParser().parseFromString(data.svg, "image/svg+xml").documentElement;
    for (const one of svg.querySelectorAll("script, foreignObject")) one.remove();
    for (const text of svg.querySelectorAll("text")) {
      const words = text.textContent.trim();
      if (frame && words === frame.agent && text.previousElementSibling) text.previousElementSibling.classList.add("now");
      const values = (words.match(/[A-Za-z_][\w:.]*/g) || []).filter((key) => key in data.state && key !== frame?.agent);
      if (values.length) {
        const note = document.createElementNS("http://www.w3.org/2000/svg", "title");
        note.textContent = values.map((key) => `${key} = ${JSON.stringify(data.state[key])}`).join("\n");
        text.append(note);
        text.classList.add("valued");
      }
    }
    box.current.replaceChildren(svg);
  }, [data, frame && frame.agent]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div data-testid="graph"><p>${frame ? html`Now speaking: <b>${frame.agent}</b>` : ""} ${Object.entries(data.steps).map(([a, n]) => html`<span class="dim"> · ${a} ${n}×</span>`)}</p>
    <div class="columns"><div class="graph" ref=${box}></div><aside class="side"><b>Checks</b>${data.checks.length ? data.checks.map((c) => html`<div class="chain"><b class=${c.severity === "error" ? "red" : ""}>${c.code}</b> ${c.message}<div class="dim">${c.where}</div><div class="dim">${c.hint}</div></div>`) : html`<p class="green">Nothing to say.</p>`}
      <h2>State</h2><pre class="text">${Object.entries(data.state).map(([k, v]) => `${k} = ${short(JSON.stringify(v), 300)}\n`)}</pre></aside></div></div>`;
}

function Trust({ session }) {
  const { data, error } = useAnswer("trust", { session });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div data-testid="trust"><h2>Fenced, labelled, redacted</h2>${data.guards.length ? html`<table><thead><tr><th>pass</th><th>rule</th><th class="n">times</th><th>events</th></tr></thead><tbody>${data.guards.map((g) => html`<tr><td>${g.pass}</td><td>${g.reason}</td><td class="n">${g.steps}</td><td class="mono dim">${g.events.join(" ")}</td></tr>`)}</tbody></table>` : html`<p class="dim">No policy here fences, labels or redacts.</p>`}
    <h2>Words of results in later calls</h2>${data.flows.length ? html`<table><thead><tr><th>call</th><th>words</th><th>from events</th></tr></thead><tbody>${data.flows.map((f) => html`<tr><td>${f.call}</td><td class="mono">${f.words.join("  ")}</td><td class="mono dim">${f.from.join(" ")}</td></tr>`)}</tbody></table>` : html`<p class="dim">No call uses words that came from a result.</p>`}</div>`;
}

function Events({ film, session, open }) {
  const [error, setError] = useState("");
  const [side, setSide] = useState(null);
  const fork = (event) => {
    const text = event.author === "user" ? prompt("Go on from here, in a new session, with this message:", event.text) : "";
    if (text === null) return;
    ask("fork", { session, event: event.index, text }, { method: "POST", headers: { "X-Weft": "fork" } }).then((made) => setSide(made), (e) => setError(e.message));
  };
  return html`<div data-testid="events"><${Problem} text=${error} />
    ${side && html`<p>New session <b>${side.id}</b>. <button onClick=${() => open(side.key)}>open it</button> <a target="_blank" href=${`${location.pathname}#${encodeURIComponent(side.key)}`}>side by side</a></p>`}
    <table><tbody>${film.events.map((e) => html`<tr><td class="n dim">${e.index + 1}</td><td>${e.author}${e.branch ? html` <span class="dim">${e.branch}</span>` : ""}</td><td><pre class="text">${e.text}${e.calls.length ? `\n→ ${e.calls.join(", ")}` : ""}${e.results.length ? `\n← ${e.results.join(", ")}` : ""}</pre></td><td class="dim">${e.state.join(", ")}</td><td class="red">${e.error}</td>
      <td>${!embedded && film.can_fork && html`<button onClick=${() => fork(e)} title="fork the session before this event">fork here</button>`}</td></tr>`)}</tbody></table></div>`;
}

function Chat({ session, film, version }) {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const end = useRef(null);
  const said = film.events.filter((e) => e.text || e.calls.length || e.error);
  useEffect(() => { if (end.current) end.current.scrollIntoView({ block: "nearest" }); }, [said.length, film.waiting.length]);
  if (embedded || !film.can_chat) return html`<p class="dim">To talk to the agent here, serve it: <code>weft serve pkg.module:agent</code></p>`;
  const post = (path, body) => { setBusy(true); setError(""); return ask(path, { session }, { method: "POST", headers: { "Content-Type": "application/json", "X-Weft": path }, body: JSON.stringify(body) }).then(() => setText(""), (e) => setError(e.message)).finally(() => setBusy(false)); };
  return html`<div class="chat" data-testid="chat">
    ${said.length === 0 && html`<p class="dim">Say something to the agent.</p>`}
    ${said.map((e) => html`<div class=${`bubble ${e.author === "user" ? "user" : ""}`}><span class="dim">${e.author}</span>${e.text && html`<div class="text">${e.text}</div>`}${e.calls.length > 0 && html`<div class="text dim">→ ${e.calls.join(", ")}</div>`}${e.error && html`<span class="red">${e.error}</span>`}</div>`)}
    ${film.waiting.map((w) => html`<${Question} key=${w.id} asked=${w} post=${post} busy=${busy} />`)}
    <${Problem} text=${error} />
    <form class="controls" onSubmit=${(e) => { e.preventDefault(); if (text.trim()) post("say", { text }); }}><label class="grow">message<textarea rows="2" style="width: 100%" value=${text} onInput=${(e) => setText(e.target.value)}></textarea></label><button disabled=${busy}>${busy ? "…" : "send"}</button></form><div ref=${end}></div></div>`;
}

// A question that is open, with what it is about, and the way to answer its kind.
function Question({ asked, post, busy }) {
  const [value, setValue] = useState("");
  const args = asked.kind === "input" ? "" : JSON.stringify(asked.args);
  const choices = (asked.args.payload && asked.args.payload.choices) || [];
  const reply = (e) => { e.preventDefault(); if (value.trim()) post("answer", { id: asked.id, value }); };
  return html`<div class="bubble question"><b>${asked.name}</b> waits for an answer
    <div>${asked.question}</div>${args && args !== "{}" && html`<div class="text">${short(args, 2000)}</div>`}
    ${asked.kind === "confirm" ? html`<div class="bar"><button class="on" disabled=${busy} onClick=${() => post("answer", { id: asked.id, approve: true })}>approve</button>
        <input type="text" placeholder="why not" aria-label="reason" value=${value} onInput=${(e) => setValue(e.target.value)} /><button disabled=${busy} onClick=${() => post("answer", { id: asked.id, approve: false, reason: value })}>deny</button></div>`
      : choices.length ? html`<div class="bar">${choices.map((c) => html`<button disabled=${busy} onClick=${() => post("answer", { id: asked.id, value: c })}>${String(c)}</button>`)}</div>`
      : html`<form class="bar" onSubmit=${reply}><input type="text" aria-label="answer" value=${value} onInput=${(e) => setValue(e.target.value)} /><button disabled=${busy}>answer</button></form>`}</div>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
