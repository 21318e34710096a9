// What all views share: asking the server, the connection, numbers as words, small parts.
// Texts are only ever set as text. Nothing is loaded from outside.
import { html, useState, useEffect, useLayoutEffect, useRef, useMemo } from "./vendor/htm-preact.js";

export const embedded = window.WEFT_DATA || null;
const texts = window.WEFT_TEXTS || [], parts = window.WEFT_PARTS || [];

// A value that several components read: whoever uses it is drawn again when it changes.
export function shared(value) {
  const readers = new Set();
  return {
    readers,
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const reader of [...readers]) reader(next);
    },
  };
}

export function useShared(one) {
  const [value, set] = useState(one.get());
  useEffect(() => {
    one.readers.add(set);
    set(one.get());
    return () => one.readers.delete(set);
  }, [one]);
  return value;
}

// What is wrong with the connection; empty while it holds. `returns` counts how often it came back.
export const trouble = shared("");
export const returns = shared(0);
const LOST = "The server does not answer. The page tries again by itself.";
const REFUSED = "The server was started anew, or does not know you. Open the address that it printed: its token is new.";

// The policy that What if begins with, for who comes from a finding.
export const tryPolicy = shared("");

export function lostConnection(text = LOST) {
  trouble.set(text);
}

export function holdsConnection() {
  if (!trouble.get()) return;
  trouble.set("");
  forgetAnswers();
  returns.set(returns.get() + 1);
}

// Answers about steps that are over never change; the last few are kept, so that going back is quick.
// Forgotten answers leave with their map: one that was asked for before and arrives later is not kept.
let answers = new Map();
const KEPT = ["request", "cache"];
export const forgetAnswers = () => { answers = new Map(); };

export async function ask(path, params = {}, options = {}) {
  const wanted = Object.entries(params).filter(([, v]) => v !== "" && v !== undefined && v !== null);
  const query = new URLSearchParams(wanted).toString();
  const key = query ? `${path}?${query}` : path;
  const known = answers;
  if (known.has(key)) return known.get(key);
  if (embedded && !(key in embedded)) throw new Error("This file holds no answer to that. Open the session with `weft inspect` to ask it.");
  const answer = inUnits(visible(embedded ? joined(embedded[key]) : await fetched(`inspect/api/${key}`, options)));
  if (KEPT.includes(path)) {
    known.set(key, answer);
    if (known.size > 16) known.delete(known.keys().next().value);
  }
  return answer;
}

export async function fetched(address, options = {}) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", ...options });
  } catch {
    lostConnection();
    throw new Error(LOST);
  }
  if (response.status === 401) lostConnection(REFUSED);
  else holdsConnection();
  const body = response.status === 204 ? {} : await response.json().catch(() => ({}));
  if (!response.ok) {
    const words = [body.detail || body.title || response.statusText, body.hint].filter(Boolean).join(" — ");
    throw Object.assign(new Error(words), { status: response.status });
  }
  return body;
}

export const posted = (address, body) =>
  fetched(address, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// An exported file keeps each text and each part of a list once: an answer has their numbers.
function joined(data) {
  if (!data || (!data.packed && !Array.isArray(data.text))) return data;
  const whole = { ...data }, packed = data.packed || [];
  for (const name of packed) whole[name] = data[name].flatMap((n) => parts[n]);
  for (const name of ["segments", "ages"]) if (packed.includes(name)) { let at = 0; whole[name] = whole[name].map(([length, ...rest]) => [(at += length), ...rest]); }
  if (packed.includes("chains")) whole.chains = Object.fromEntries(whole.chains.map(([event, links]) => [event, links.map((link) => ({ ...link, before: texts[link.before], after: link.after === null ? null : texts[link.after] }))]));
  for (const name of ["rows", "left_out"]) if (packed.includes(name)) whole[name] = whole[name].map((row) => ({ ...row, text: texts[row.text] }));
  if (whole.text) whole.text = whole.text.map((n) => texts[n]).join("");
  return whole;
}

// The server counts characters, a browser counts UTF-16 units: they differ after an emoji.
export function toUnits(text, ends) {
  if (!/[\ud800-\udfff]/.test(text)) return ends;
  let points = 0, units = 0;
  return ends.map((end) => {
    for (; points < end; points++) units += text.codePointAt(units) > 0xffff ? 2 : 1;
    return units;
  });
}

// Characters that nobody sees, that turn others around or that steer a terminal, each as one that is seen:
// a text keeps its length, so its places stay. Names by which the server is asked stay as they are; questions
// that wait are spelled out where they are shown.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]|\udb40[\udc00-\udc7f]/g;
const sign = (one) => "\ufffd".repeat(one.length);
const NAMES = new Set(["key", "id", "name", "event", "svg", "data"]);
export function visible(value, name = "") {
  if (typeof value === "string") return NAMES.has(name) || value.search(UNSEEN) < 0 ? value : value.replace(UNSEEN, sign);
  if (Array.isArray(value)) { for (let i = 0; i < value.length; i++) if (typeof value[i] !== "number") value[i] = visible(value[i], name); }
  else if (value && typeof value === "object") for (const key of Object.keys(value)) if (typeof value[key] !== "number" && key !== "waiting") value[key] = visible(value[key], key);
  return value;
}

// The conversation first: the tools follow it.
const isTool = (row) => row.source === "tools";

function inUnits(data) {
  if (!data || typeof data !== "object") return data;
  if (data.view) return { ...data, view: inUnits(data.view) };
  if (typeof data.text !== "string" || !data.rows) return data;
  data.rows = [...data.rows.filter((row) => !isTool(row)), ...data.rows.filter(isTool)];
  const ends = toUnits(data.text, data.segments.map((s) => s[0]));
  data.segments = data.segments.map(([, o, p], i) => [ends[i], o, p]);
  for (const row of data.rows) {
    const cuts = toUnits(row.text, row.pieces.map((p) => p[0]));
    row.pieces = row.pieces.map(([, o], i) => [cuts[i], o]);
  }
  return data;
}

// The answer to a question; asked again when the question changes, or the connection came back.
export function useAnswer(path, params, ready = true) {
  const [state, set] = useState({ data: null, error: "", key: "" });
  const back = useShared(returns);
  const key = JSON.stringify([path, params, ready, back]);
  useEffect(() => {
    let live = true;
    if (!ready) return undefined;
    ask(path, params).then(
      (data) => live && set({ data, error: "", key }),
      (e) => live && set((old) => ({ data: e.status ? null : old.data, error: String(e.message || e), status: e.status, key })),
    );
    return () => { live = false; };
  }, [key]);
  return { ...state, busy: ready && state.key !== key };
}

// Answers to what a click asked arrive in any order, and late. `begin()` gives a test: whether nothing
// was begun since, and the component is still there.
export function useNewest() {
  const last = useRef(0);
  const begin = () => { const mine = ++last.current; return () => mine === last.current; };
  useEffect(() => begin, []);
  return begin;
}

// A stream of server-sent events that is opened again for as long as somebody listens.
export function listen(address, { opened, ...handlers }) {
  let source = null, timer = 0, over = false;
  const close = () => { over = true; clearTimeout(timer); if (source) source.close(); };
  const open = () => {
    source = new EventSource(address());
    source.onopen = () => { holdsConnection(); if (opened) opened(); };
    source.onerror = () => {
      if (over) return;
      if (trouble.get() === "") lostConnection();
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(probe, 2000);
    };
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (e) => { if (handler(e) === "close") close(); });
    }
  };
  // A refused stream says not why: an ordinary request does.
  const probe = () => fetched("inspect/api/sessions").then(() => !over && open(), () => { if (!over) timer = setTimeout(probe, 2000); });
  open();
  return close;
}

// Numbers as words
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 }); // to make one takes longer than to use it
export const number = (n) => (n === null || n === undefined ? "–" : grouped.format(Math.round(n)));
export const share = (a, b) => (b ? `${Math.round((100 * a) / b)}%` : "–");
export const cachedShare = (s) => share(Math.min(s.cached, s.tokens), s.tokens);
export const brief = (n) =>
  n >= 999500 ? `${(n / 1e6).toFixed(1)}M` : n >= 999.5 ? `${(n / 1e3).toFixed(n < 9950 ? 1 : 0)}k` : String(Math.round(n));
export const many = (n, word, several = `${word}s`) => `${number(n)} ${n === 1 ? word : several}`;
export const cost = (c, money) => {
  if (c === undefined || c === null) return "–";
  if (!money) return `${number(c)} tok at full price`;
  return `${c < 0 ? "−" : ""}$${Math.abs(c) >= 10 ? Math.abs(c).toFixed(2) : Math.abs(c).toFixed(4)}`;
};
// Costs of calls whose model has a price are not those of all calls.
export const unpriced = (s, calls) => (s.unpriced ? `${number(s.unpriced)} of ${many(calls, "call")} ${s.unpriced === 1 ? "has" : "have"} no price` : "");
export const change = (a, b) => `${a > b ? "+" : a < b ? "−" : "±"}${number(Math.abs(a - b))}`;
export const short = (text, most = 1200) => (text.length > most ? `${text.slice(0, most)}…` : text);
// Characters that nobody sees and that turn others around, as their codes: who approves a call must see what it does.
// Those that join letters stay: emoji and several scripts are written with them.
export const spelled = (text) => text.replace(/[\u0080-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
export const ago = (time) => {
  const s = Math.max(0, Date.now() / 1000 - time);
  if (s < 90) return "just now";
  if (s < 5400) return `${Math.round(s / 60)} min ago`;
  return s < 129600 ? `${Math.round(s / 3600)} h ago` : new Date(time * 1000).toLocaleDateString();
};

// Events and origins as words: the log counts them, nobody remembers their ids.
const places = new WeakMap();
export function placeOf(film, id) {
  if (!places.has(film)) places.set(film, new Map(film.events.map((e) => [e.id, e])));
  return places.get(film).get(id);
}

// Where something comes from, in words of the reader.
const FIELDS = { instruction: "instruction", global_instruction: "instruction for all agents", description: "description", output: "schema of the answer" };
const BLANK_LINE = "a blank line between two texts";
const TURN = /^(?:messages|input|contents)\/(\d+)/;
function plainOrigin(origin) {
  const of = origin.agent ? ` of ${origin.agent}` : "";
  if (origin.kind === "field") return `${FIELDS[origin.name] || origin.name.replace(/_/g, " ")}${of}`;
  if (origin.kind === "tool") return `tool ${origin.name}`;
  if (origin.kind === "dialect") return origin.name === "blank line" ? BLANK_LINE : "the provider's format";
  if (origin.kind === "pass") return `added by ${origin.name}`;
  if (origin.kind === "config") return `setting ${origin.name}`;
  const turn = TURN.exec(origin.name);
  if (origin.kind === "event" && origin.name.startsWith("system/")) return "system text";
  if (origin.kind === "event" && turn) return `message ${Number(turn[1]) + 1}`;
  return origin.words.replace(/\b([0-9a-f]{8})[0-9a-f]{24}\b/g, "$1…");
}

export function named(origin, film) {
  if (origin.source) return origin.source;
  const event = origin.kind === "event" && placeOf(film, origin.name);
  if (!event) return plainOrigin(origin);
  return `event ${event.index + 1}, ${event.author}`;
}
export const withNumbers = (text, film) =>
  text.replace(/\b(\w+)\.(instruction|global_instruction):\d+/g, "$2 of $1").replace(/\(?event (?:messages|input|contents)\/(\d+)(?:#\d+)?\)?/g, (_, n) => `message ${Number(n) + 1}`).replace(/\d{4,}(?= tokens)/g, (n) => number(Number(n))).replace(/dialect blank line/g, BLANK_LINE).replace(/\b(?:event )?([0-9a-f]{32})(#\d+)?/g, (whole, id) => (placeOf(film, id) ? `event ${placeOf(film, id).index + 1}` : `${id.slice(0, 8)}…`));

// Small parts
// Names stand between backticks in what the server says.
export const Ticked = ({ text }) => text.split("`").map((words, i) => (i % 2 ? html`<code>${words}</code>` : words));
export const Problem = ({ text }) => (text ? html`<div class="problem" role="alert">${text}</div>` : null);
export const Waiting = () => html`<p class="dim" role="status">Loading…</p>`;
export const Empty = ({ title, children }) => html`<div class="empty"><b>${title}</b><div class="dim">${children}</div></div>`;
export const Fact = ({ name, value, was, better }) => html`<div class="fact"><span class="dim">${name}</span><b>${value}</b>
  ${was !== undefined && html`<span class=${better === undefined ? "dim" : better ? "green" : "red"}>${was}</span>`}</div>`;

export function Notes({ list, film }) {
  if (!list.length) return null;
  const kind = (text) => (/(error|warning|info)\[/.exec(text) || [, "info"])[1];
  const worst = ["error", "warning", "info"].find((k) => list.some((text) => kind(text) === k));
  const head = withNumbers(list.find((text) => kind(text) === worst).split("\n")[0], film);
  return html`<details class=${`note ${worst}`} open=${worst === "error"}><summary><b>${many(list.length, "remark")}</b> <span class="dim">${head}</span></summary>
    ${list.map((text) => html`<pre class=${`text note ${kind(text)}`}>${withNumbers(text, film)}</pre>`)}</details>`;
}

// Two texts, with only what differs struck out and put in.
export function Changed({ before, after }) {
  if (after === null) return html`<pre class="text"><del>${short(before)}</del></pre>`;
  if (after === before) return html`<pre class="text">${short(after)}</pre><i class="dim">What it hid stays hidden here too.</i>`;
  let head = 0, tail = 0;
  const most = Math.min(before.length, after.length);
  while (head < most && before[head] === after[head]) head++;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const near = before.slice(Math.max(0, head - 160), head), behind = before.slice(before.length - tail, before.length - tail + 160);
  return html`<pre class="text">${head > 160 ? "…" : ""}${near}<del>${short(before.slice(head, before.length - tail))}</del><ins>${short(after.slice(head, after.length - tail))}</ins>${behind}${tail > 160 ? "…" : ""}</pre>`;
}

// A dialog: the browser keeps the focus inside, closes it with Escape, and puts the focus back.
export function Dialog({ title, close, children }) {
  const box = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => { if (before && before.isConnected) before.focus(); };
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${close} onClick=${(e) => e.target === box.current && box.current.close()}>
    <div class="sheet"><div class="bar"><h2>${title}</h2><span class="grow"></span><button onClick=${() => box.current.close()} aria-label="close">✕</button></div>${children}</div></dialog>`;
}

export function useWidth(box) {
  const [width, set] = useState(0);
  useEffect(() => {
    if (!box.current) return undefined;
    const watch = new ResizeObserver(([entry]) => set(Math.floor(entry.contentRect.width)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return width;
}

export function useMemory(name, start) {
  const [value, set] = useState(() => { try { return JSON.parse(sessionStorage.getItem(name)) ?? start; } catch { return start; } });
  const keep = (next) => { set(next); try { sessionStorage.setItem(name, JSON.stringify(next)); } catch { /* a file may have no storage */ } };
  return [value, keep];
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A button that copies, and says that it did.
export function Copy({ text, name }) {
  const [done, set] = useState("");
  const copy = () => {
    const fails = () => set("select it and press Ctrl+C");
    if (!navigator.clipboard) return fails();
    return navigator.clipboard.writeText(text).then(() => set("copied"), fails);
  };
  useEffect(() => { const t = done && setTimeout(() => set(""), 2000); return () => clearTimeout(t); }, [done]);
  return html`<button onClick=${copy}>${name}</button>${done && html`<span class="green" role="status">${done}</span>`}`;
}

// In an exported file: what only the program can answer, and what to type to ask it.
export const NeedsServer = ({ film, name, title, children }) => html`<div data-testid=${name}><${Empty} title=${title}>
  <p>${children}</p>
  <p>In a terminal, type</p>
  <p class="bar command"><code class="text">${film.command}</code><${Copy} text=${film.command} name="copy" /></p>
  <p>and open the session <b>${film.session.id}</b> on the page that it names.${/pkg\.module/.test(film.command) && html` In place of <code>pkg.module:object</code> write the program that ran it, and the address of its store.`}</p><//></div>`;

// The values of the state as they were before a step, folded from the events up to it.
export function useStateAt(film, step) {
  return useMemo(() => {
    const frame = film.frames[step - 1];
    const end = frame ? placeOf(film, frame.event).index : film.events.length;
    const state = Object.assign(Object.create(null), film.state); // a key may be `__proto__`
    for (const event of film.events.slice(0, end)) for (const [key, value] of Object.entries(event.state)) if (value === "null") delete state[key]; else state[key] = value;
    return state;
  }, [film, step]);
}
