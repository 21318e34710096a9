// A request: as messages, or as the JSON that is sent; the origin of every character, and a search.
import { html, useState, useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import { Changed, Notes, Problem, Waiting, named, number, placeOf, shared, useAnswer, useMemory, useShared } from "./common.js";
import { Answer } from "./answer.js";
import { Media, Prose, isMarkdown, rendering } from "./text.js";

// All pieces of one origin are lit, wherever they stand. Only they are touched: a rule in a style
// sheet would make the browser look at every piece of a long request again.
let lit = null;
export function light(origin) {
  lit = origin === undefined ? null : origin;
  const wanted = lit === null ? new Set() : new Set(document.querySelectorAll(`[data-o="${lit}"]`));
  for (const one of document.querySelectorAll(".lit")) if (!wanted.has(one)) one.classList.remove("lit");
  for (const one of wanted) one.classList.add("lit");
}

// What is under the pointer or the caret: `{ origin, pointer }`, or null.
const pointed = shared(null);

export function Request({ session, step, film, show }) {
  const { data, error, busy } = useAnswer("request", { session, step });
  const [raw, setRaw] = useMemory("raw", false);
  const [picked, setPicked] = useState(null);
  // A piece that was picked while the next request travelled is none of it.
  useEffect(() => { setPicked(null); light(null); pointed.set(null); }, [step, session, data && data.number]);
  useEffect(() => () => light(null), []);
  useEffect(() => {
    const press = (e) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      if (e.key === "r") setRaw(!raw); else if (e.key === "m") rendering.set(!rendering.get()); else if (e.key === "Escape") setPicked(null);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [raw]);
  const isRendered = useShared(rendering);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div aria-busy=${busy}><div class="bar"><div class="switch" role="group" aria-label="show the request as"><button aria-pressed=${!raw} class=${raw ? "" : "on"} onClick=${() => setRaw(false)}>Messages</button><button aria-pressed=${raw} class=${raw ? "on" : ""} onClick=${() => setRaw(true)}>Raw JSON</button></div>${!raw && html`<button aria-pressed=${isRendered} onClick=${() => rendering.set(!isRendered)} title="key m">Markdown</button>`}
      <span class="dim">${data.agent} → ${data.model || "a model that is not named"} · ${data.dialect} · ${number(data.tokens)} tokens · ${data.cost}</span></div>
    <${Notes} list=${data.diagnostics} film=${film} />
    <${Spans} key=${raw} view=${data} raw=${raw} picked=${picked} pick=${setPicked} film=${film} show=${show} session=${session} lead=${html`<${Answer} session=${session} step=${step} film=${film} show=${show} />`} /></div>`;
}

// The text with its origins next to it. `fresh` says of a row whether the request compared with lacks it.
export function Spans({ view, raw, picked, pick, film, show, fresh, session, lead }) {
  const isRendered = useShared(rendering);
  const [query, setQuery] = useState("");
  const [spot, setSpot] = useState({ hits: null, nth: 0 });
  const [seek, setSeek] = useState(null);
  const lines = useMemo(() => (raw ? layOut(view) : null), [view, raw]);
  const [wanted, setWanted] = useState("");
  useEffect(() => { const timer = setTimeout(() => setWanted(query), query ? 100 : 0); return () => clearTimeout(timer); }, [query]);
  const hits = useMemo(() => search(view, raw, wanted), [view, raw, wanted]);
  const nth = spot.hits === hits ? spot.nth : 0;
  const at = (e) => { const span = e.target.closest("[data-o]"); return span && { origin: Number(span.dataset.o), pointer: span.dataset.p || "" }; };
  const point = (one) => { pointed.set(one || null); light(one ? one.origin : picked); };
  const press = (e) => { if (getSelection().toString()) return; const one = at(e); pick(one ? one.origin : null); point(one); };
  const next = (by) => hits.length && setSpot({ hits, nth: (nth + by + hits.length) % hits.length });
  const keep = (origin) => { pick(origin); light(origin); };
  const Text = raw ? Raw : Messages;
  return html`<div class="columns"><div class="sent">
      <div class="find" role="search"><input type="search" data-find placeholder="find in this request" aria-label="find in this request" value=${query} onInput=${(e) => setQuery(e.target.value)}
          onKeyDown=${(e) => { if (e.key === "Enter") { e.preventDefault(); if (wanted === query) next(e.shiftKey ? -1 : 1); else setWanted(query); } else if (e.key === "Escape") { setQuery(""); e.target.blur(); } }} />
        ${wanted && html`<span class="dim" role="status" data-testid="hits">${hits.length ? `${nth + 1} of ${number(hits.length)}` : "not in this request"}</span>
          <button onClick=${() => next(-1)} disabled=${!hits.length} aria-label="previous hit">↑</button><button onClick=${() => next(1)} disabled=${!hits.length} aria-label="next hit">↓</button>`}</div>
      <div onMouseOver=${(e) => point(at(e))} onMouseLeave=${() => point(null)} onClick=${press}>
        <${Text} view=${view} lines=${lines} hits=${hits} nth=${nth} seek=${seek} point=${point} pick=${keep} film=${film} fresh=${fresh} session=${session} plain=${!isRendered || Boolean(wanted)} /></div></div>
    <div class="aside">${lead}<${Side} view=${view} picked=${picked} pick=${keep} film=${film} show=${show} find=${(origin) => setSeek({ origin })} /></div></div>`;
}

function search(view, raw, query) {
  const hits = [];
  if (!query) return hits;
  const scan = (text, wanted, row) => {
    const low = text.toLowerCase(), word = wanted.toLowerCase();
    for (let at = low.indexOf(word); at >= 0 && hits.length < 5000; at = low.indexOf(word, at + word.length)) hits.push({ row, at, length: word.length });
  };
  if (!raw) view.rows.forEach((row, i) => scan(row.text, query, i));
  else {
    scan(view.text, query, 0);
    if (!hits.length) scan(view.text, JSON.stringify(query).slice(1, -1), 0);
  }
  return hits;
}

// Hits are painted by the browser over ranges: no element is made for them.
function paint(ranges, current) {
  if (!window.CSS || !CSS.highlights) return;
  CSS.highlights.set("hit", new Highlight(...ranges));
  CSS.highlights.set("hit-now", current ? new Highlight(current) : new Highlight());
}

function rangeIn(element, at, length) {
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), range = document.createRange();
  let start = 0, opened = false;
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const end = start + node.length;
    if (!opened && at < end) { range.setStart(node, at - start); opened = true; }
    if (opened && at + length <= end) { range.setEnd(node, at + length - start); return range; }
    start = end;
  }
  return null;
}

// Messages. The first are drawn at once, the others a frame later: a long request opens at once.
const GROUP = 40;
function Messages({ view, hits, nth, seek, point, pick, film, fresh, session, plain }) {
  const groups = useMemo(() => {
    const cut = [];
    for (let i = 0; i < view.rows.length; i += GROUP) cut.push(view.rows.slice(i, i + GROUP).map((row, k) => html`<${Row} row=${row} view=${view} index=${i + k} film=${film} fresh=${fresh} session=${session} plain=${plain} />`));
    return cut;
  }, [view, film, fresh, session, plain]);
  const [drawn, setDrawn] = useState(1);
  const box = useRef(null), caret = useRef(null);
  useEffect(() => { setDrawn(1); caret.current = null; }, [view]);
  useLayoutEffect(() => { if (lit !== null) light(lit); }, [drawn]);
  useEffect(() => {
    if (drawn >= groups.length) return undefined;
    const timer = setTimeout(() => setDrawn(drawn + 1), 0);
    return () => clearTimeout(timer);
  }, [drawn, groups]);
  const rowAt = (i) => box.current.children[i].lastElementChild;
  useEffect(() => {
    if (drawn < groups.length && hits.length) { setDrawn(groups.length); return; }
    const ranges = hits.slice(0, 500).map((hit) => rangeIn(rowAt(hit.row), hit.at, hit.length)).filter(Boolean);
    const now = hits[nth] && rangeIn(rowAt(hits[nth].row), hits[nth].at, hits[nth].length);
    paint(ranges, now);
    if (now) reveal(now.startContainer.parentElement);
  }, [hits, nth, drawn]);
  useEffect(() => () => paint([], null), []);
  useEffect(() => {
    if (!seek) return;
    if (drawn < groups.length) { setDrawn(groups.length); return; }
    const first = box.current.querySelector(`[data-o="${seek.origin}"]`);
    if (first) reveal(first);
  }, [seek, drawn >= groups.length]);
  const walk = (e) => {
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(e.key) || e.target !== box.current) return;
    e.preventDefault();
    if (e.key === "Enter") { if (caret.current) pick(Number(caret.current.dataset.o)); return; }
    const spans = [...box.current.querySelectorAll("[data-o]")], by = e.key === "ArrowDown" ? 1 : -1;
    const next = spans[caret.current ? Math.max(0, Math.min(spans.length - 1, spans.indexOf(caret.current) + by)) : 0];
    if (caret.current) caret.current.classList.remove("caret");
    caret.current = next;
    next.classList.add("caret");
    reveal(next);
    point({ origin: Number(next.dataset.o), pointer: "" });
  };
  return html`<div class="messages" data-testid="messages" data-whole=${drawn >= groups.length} ref=${box} tabindex="0" role="region" onKeyDown=${walk}
    aria-label="messages; arrow down and up go from piece to piece, Enter shows where a piece came from">${groups.slice(0, drawn)}</div>`;
}

// Rows take their true height only where they can be seen, which moves what was just brought into view: it is looked at again.
function reveal(element, looks = 5) {
  const folded = element.closest("details:not([open])");
  if (folded) folded.open = true;
  const box = element.getBoundingClientRect(), head = 110;
  if (box.top < head || box.bottom > innerHeight - 20) element.scrollIntoView({ block: "center" });
  if (looks) requestAnimationFrame(() => element.isConnected && reveal(element, looks - 1));
}

// How often a part changes; most are of a turn, of which there is nothing to say.
const STABLE = { static: ["fixed", "the same in every request of every session"], session: ["of the session", "the same in every request of this session"] };

// A tool is one line that opens. A row of one piece is shown as Markdown where it is some.
function Row({ row, view, index, film, fresh, session, plain }) {
  const origin = view.origins[row.origin], isNew = fresh && fresh(row), props = { class: `row ${isNew ? "fresh" : ""}`, "data-row": index, style: `border-color: var(--${row.source})` };
  const what = html`<b>${row.role ? `${row.role} ${row.kind}` : row.kind}</b><span>${number(row.tokens)} tok</span><span>${named(origin, film)}</span>${fresh ? isNew && html`<span class="green">not in the request that was sent</span>` : STABLE[row.stability] && html`<span title=${STABLE[row.stability][1]}>${STABLE[row.stability][0]}</span>`}${!fresh && html`${row.shared && html`<span class="green">as before</span>`}`}<span class="hide">${row.pointer}</span>`;
  const prose = !plain && row.pieces.length <= 1 && row.role && row.kind === "text" && isMarkdown(row.text);
  const text = prose ? html`<div class="text whole"><div data-o=${row.pieces.length ? row.pieces[0][1] : row.origin} class=${origin.kind}><${Prose} text=${row.text} /></div></div>`
    : html`<div class="text">${chunks(row).map((chunk) => html`<div class="chunk" style=${chunk.tall ? `contain-intrinsic-size: auto ${chunk.tall}px` : ""}>${chunk.spans.map(([words, o]) => html`<span data-o=${o} class=${view.origins[o].kind}>${words}</span>`)}</div>`)}</div>`;
  if (row.source === "tools") return html`<details ...${props}><summary class="what">${what}</summary>${text}</details>`;
  const media = session && row.kind === "media" && origin.kind === "event" && origin.part >= 0;
  return html`<div ...${props}><div class="what">${what}</div>${media && html`<${Media} session=${session} event=${origin.name} part=${origin.part} mime=${(/[a-z]+\/[\w.+-]+/.exec(row.text) || [""])[0]} />`}${text}</div>`;
}

// A row's text in blocks of some kilobytes: the browser lays out only those that can be seen.
const BLOCK = 6000;
function chunks(row) {
  const text = row.text, ends = row.pieces.length ? row.pieces : [[text.length, row.origin]], out = [];
  let start = 0, piece = 0;
  do {
    let end = text.length;
    if (end - start > 1.5 * BLOCK) {
      const line = text.lastIndexOf("\n", start + BLOCK);
      end = line > start + BLOCK / 2 ? line + 1 : start + BLOCK;
      if (/[\udc00-\udfff]/.test(text[end] || "")) end++;
    }
    const spans = [];
    for (let at = start; at < end;) {
      while (piece < ends.length - 1 && ends[piece][0] <= at) piece++;
      const stop = piece === ends.length - 1 ? end : Math.min(end, ends[piece][0]);
      spans.push([text.slice(at, stop), ends[piece][1]]);
      at = stop;
    }
    out.push({ spans, tall: text.length > 2 * BLOCK ? 18 * Math.ceil((end - start) / 110) : 0 });
    start = end;
  } while (start < text.length);
  return out;
}

// The JSON as lines that are only drawn where they can be seen.
const LINE = 18, WIDEST = 160;
function Raw({ view, lines, hits, nth, seek, point, pick }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const [caret, setCaret] = useState(-1);
  // Drawn anew only every twenty lines, with some to spare on both sides.
  const first = Math.max(0, top - 20), last = Math.min(lines.length, top + 60 + (box.current ? Math.ceil(box.current.clientHeight / LINE) : 60));
  const follow = () => setTop(20 * Math.floor(box.current.scrollTop / LINE / 20));
  const lineOf = (at) => { let low = 0, high = lines.length - 1; while (low < high) { const mid = (low + high + 1) >> 1; if (lines[mid].at <= at) low = mid; else high = mid - 1; } return low; };
  const bring = (at) => {
    const line = lineOf(at) * LINE, view = box.current;
    view.scrollIntoView({ block: "nearest" });
    if (line < view.scrollTop + LINE || line > view.scrollTop + view.clientHeight - 3 * LINE) { view.scrollTop = line - view.clientHeight / 2; follow(); }
  };
  useEffect(() => { setCaret(-1); box.current.scrollTop = 0; setTop(0); }, [view]);
  useEffect(() => { if (hits[nth]) bring(hits[nth].at); }, [hits, nth]);
  useEffect(() => { const s = seek ? view.segments.findIndex((one) => one[1] === seek.origin) : -1; if (s >= 0) bring(s ? view.segments[s - 1][0] : 0); }, [seek]);
  useLayoutEffect(() => {
    if (lit !== null) light(lit);
    if (!hits.length) { paint([], null); return; }
    const from = lines[first] ? lines[first].at : 0, to = last < lines.length ? lines[last].at : view.text.length;
    const seen = hits.filter((hit) => hit.at + hit.length > from && hit.at < to);
    const ranges = seen.map((hit) => rangeIn(box.current, hit.at - from, Math.min(hit.length, to - hit.at)) || null);
    paint(ranges.filter(Boolean), ranges[seen.indexOf(hits[nth])] || null);
  }, [hits, nth, first, last]);
  useEffect(() => () => paint([], null), []);
  const walk = (e) => {
    if (!["ArrowDown", "ArrowUp", "Enter"].includes(e.key)) return;
    e.preventDefault();
    let s = caret < 0 ? -1 : view.segments.findIndex((one) => one[0] > caret);
    if (e.key === "Enter") { if (s >= 0) pick(view.segments[s][1]); return; }
    s = Math.max(0, Math.min(view.segments.length - 1, s + (e.key === "ArrowDown" ? 1 : -1)));
    const at = s ? view.segments[s - 1][0] : 0;
    setCaret(at);
    bring(at);
    point({ origin: view.segments[s][1], pointer: view.pointers[view.segments[s][2]] });
  };
  return html`<div class="raw text" ref=${box} data-testid="raw" data-lines=${lines.length} onScroll=${follow} tabindex="0" role="region" onKeyDown=${walk}
    aria-label="the request as JSON; arrow down and up go from piece to piece, Enter shows where a piece came from"><div style=${`height: ${lines.length * LINE}px`}>
    ${lines.slice(first, last).map((line, i) => html`<div class="line" key=${first + i} style=${`top: ${(first + i) * LINE}px; padding-left: ${0.6 + line.depth}rem`}>${line.spans.map(([text, o, at, p]) => html`<span data-o=${o} data-at=${at} data-p=${view.pointers[p]} class=${at === caret ? "caret" : ""}>${text}</span>`)}</div>`)}</div></div>`;
}

// Lines as a person would break the JSON; long texts are cut. Offsets are of the text itself.
export function layOut(view) {
  const text = view.text, stops = [[0, 0]], lines = [];
  let depth = 0, quoted = false, s = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (quoted) { if (c === 92) i++; else if (c === 34) quoted = false; }
    else if (c === 34) quoted = true;
    else if (c === 123 || c === 91) stops.push([i + 1, ++depth]);
    else if (c === 125 || c === 93) stops.push([i, --depth]);
    else if (c === 44) stops.push([i + 1, depth]);
  }
  stops.push([text.length, 0]);
  for (let i = 0; i + 1 < stops.length; i++) {
    for (let from = stops[i][0], to; from < stops[i + 1][0]; from = to) {
      to = Math.min(from + WIDEST, stops[i + 1][0]);
      if (to < text.length && /[\udc00-\udfff]/.test(text[to])) to++;
      const spans = [];
      for (let at = from; at < to;) {
        while (view.segments[s][0] <= at) s++;
        const end = Math.min(to, view.segments[s][0]);
        spans.push([text.slice(at, end), view.segments[s][1], at, view.segments[s][2]]);
        at = end;
      }
      lines.push({ depth: stops[i][1], at: from, spans });
    }
  }
  return lines;
}

// Next to the text: what is under the pointer, what was picked, and all origins.
function Side({ view, picked, pick, film, show, find }) {
  const sizes = useMemo(() => sizesOf(view), [view]);
  const parts = useMemo(() => {
    const shown = view.origins.map((o, i) => i).filter((i) => sizes[i] > 0);
    return Array.from({ length: Math.ceil(shown.length / LISTED) }, (_, n) => html`<${OriginList} key=${n} view=${view} list=${shown.slice(n * LISTED, (n + 1) * LISTED)} sizes=${sizes} picked=${picked} pick=${pick} film=${film} find=${find} />`);
  }, [view, picked, film]);
  const [drawn, setDrawn] = useState(1);
  useEffect(() => setDrawn(1), [view]);
  useEffect(() => { const timer = drawn < parts.length && setTimeout(() => setDrawn(drawn + 1), 0); return () => clearTimeout(timer); }, [drawn, parts.length]);
  return html`<aside class="side" aria-label="origins">
    <${Here} view=${view} film=${film} />
    ${picked !== null && view.origins[picked] && html`<${Picked} origin=${view.origins[picked]} view=${view} film=${film} show=${show} close=${() => { pick(null); document.querySelector(".messages, .raw").focus({ preventScroll: true }); }} />`}
    <div class="origins"><b>Origins</b>${parts.slice(0, drawn)}</div></aside>`;
}

// Some origins of a request; a long list is drawn bit by bit, so that the page answers meanwhile.
const LISTED = 80;
const OriginList = ({ view, list, sizes, picked, pick, film, find }) => list.map((i) => {
  const o = view.origins[i];
  return html`<button data-origin=${i} class=${i === picked ? "on" : ""} onMouseOver=${() => light(i)} onMouseLeave=${() => light(picked)} onFocus=${() => light(i)} onBlur=${() => light(picked)} onClick=${() => { pick(i); find(i); }}><span class="grow">${named(o, film)}${o.place ? html` <span class="dim">${o.place.split("/").pop()}</span>` : ""}</span><span class="dim">${number(sizes[i])}</span></button>`;
});

function sizesOf(view) {
  const sizes = view.origins.map(() => 0);
  let start = 0;
  if (view.segments.length) for (const [end, o] of view.segments) { sizes[o] += end - start; start = end; }
  else for (const row of view.rows) for (const { spans } of chunks(row)) for (const [text, o] of spans) sizes[o] += text.length;
  return sizes;
}

function Here({ view, film }) {
  const spot = useShared(pointed), origin = spot && view.origins[spot.origin];
  return html`<div class="here" data-testid="here" aria-live="polite">${origin ? html`<b>${named(origin, film)}</b>
      <div class="dim">${[origin.kind, origin.place, spot.pointer].filter(Boolean).join(" · ")}</div>`
    : html`<span class="dim">Hover a character, or go through the text with ↓ and ↑: its origin is named here, and lit wherever it stands. Click, or Enter, for the passes that made it.</span>`}</div>`;
}

function Picked({ origin, view, film, show, close }) {
  const chain = (origin.kind === "event" && view.chains[origin.name]) || [];
  const event = origin.kind === "event" && placeOf(film, origin.name);
  const writer = origin.kind === "state" && film.events.findLast((e) => origin.name in e.state);
  return html`<div class="picked" data-testid="origin"><div class="bar"><b>${named(origin, film)}</b><span class="grow"></span><button onClick=${close}>close</button></div>
    <table class="facts"><tbody><tr><th>kind</th><td>${origin.kind}</td></tr>
      ${origin.agent && origin.kind !== "event" && html`<tr><th>agent</th><td>${origin.agent}</td></tr>`}
      ${origin.place && html`<tr><th>declared</th><td class="mono">${origin.place}</td></tr>`}
      ${event && html`<tr><th>event</th><td>${show ? html`<button class="link" onClick=${() => show("events", event.index)}>${event.index + 1} of ${film.events.length}</button>` : event.index + 1}, by ${event.author}</td></tr>`}
      ${writer && html`<tr><th>written by</th><td>event ${writer.index + 1}, ${writer.author}</td></tr>`}</tbody></table>
    ${chain.length ? html`<b>Passes that touched it</b>` : html`<p class="dim">No pass touched it: it is sent as it was written.</p>`}
    ${chain.map((one) => html`<div class="chain"><b>${one.pass}</b> <span class="dim">${one.reason}</span><${Changed} before=${one.before} after=${one.after} />${one.after === null && html`<i>left out</i>`}</div>`)}</div>`;
}
