// The log, forks side by side, the chat, and the questions that wait for an answer.
import { html, useState, useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import { Dialog, Empty, Problem, Waiting, ask, cachedShare, cost, embedded, fetched, listen, many, number, posted, short, shared, spelled, unpriced, useAnswer, useNewest, useShared } from "./common.js";
import { Media, Prose } from "./text.js";

export const addressOf = (key) => {
  const [app, user, id] = JSON.parse(key);
  return { app, user, id, base: `api/apps/${encodeURIComponent(app)}/sessions/${encodeURIComponent(id)}`, query: `user=${encodeURIComponent(user)}` };
};

// The newest events of the session that is open, whole, and what a model is saying just now.
const NEWEST = 200;
export const feed = shared({ session: "", events: [], partial: null });

// Follow a session: `grown` is called with the number of events, `gone` when it is deleted.
export function follow(session, film, { grown, gone }) {
  const length = film.session.events;
  if (!film.can_chat) {
    feed.set({ session, events: [], partial: null });
    return listen(() => `inspect/api/live?session=${encodeURIComponent(session)}&after=${length}`, { grown: (e) => grown(Number(e.data)), gone: () => { gone(); return "close"; } });
  }
  const { base, query } = addressOf(session);
  let last = Math.max(0, length - NEWEST);
  feed.set({ session, events: [], partial: null });
  const take = (e) => {
    const event = JSON.parse(e.data), now = feed.get();
    if (now.session !== session) return;
    if (e.lastEventId && event.sequence) {
      // A stream that was closed may deliver once more: what is here already is not shown again.
      if (event.sequence <= last || now.events.some((one) => one.sequence === event.sequence)) return;
      last = event.sequence;
      feed.set({ ...now, events: [...now.events, event].slice(-2 * NEWEST), partial: null });
      if (last > length) grown(last);
    } else if (event.partial && !now.events.some((one) => one.id === event.id)) {
      // A piece may be on its way still when the answer that it belongs to has arrived: it is part of it.
      // Pieces have the id of their answer. One that is void takes back the others: the answer begins anew, or never ends.
      const isVoid = event.interrupted || event.errorCode;
      const before = now.partial && now.partial.id === event.id && !isVoid ? now.partial : { text: "", thought: "" };
      const partial = { id: event.id, author: event.author, text: before.text + said(event), thought: before.thought + said(event, true) };
      feed.set({ ...now, partial: isVoid && !event.content ? null : partial });
    }
  };
  return listen(() => `${base}/events?${query}&follow=true&after=${last}`, {
    // A stream that is opened again may begin an answer again, or in its midst: what was heard of it is void.
    opened: () => { const now = feed.get(); if (now.session === session && now.partial) feed.set({ ...now, partial: null }); },
    message: take,
    problem: (e) => { if (JSON.parse(e.data).status === 404) { gone(); return "close"; } return undefined; },
  });
}

const said = (event, thought = false) => ((event.content && event.content.parts) || []).filter((p) => p.text && Boolean(p.thought) === thought).map((p) => p.text).join("");

// The log as it is stored. An event is opened for all of it, and forked from.
export function Events({ film, session, open, at }) {
  const [error, setError] = useState("");
  const [forking, setForking] = useState(null);
  const [beside, setBeside] = useState(null);
  const [opened, setOpened] = useState({});
  const box = useRef(null), forkedAt = useRef(null), [back, setBack] = useState(null);
  const drawn = useGrowth(at === null ? 80 : at + 1, film.events.length);
  // Who came from elsewhere, or back from a fork, is at that event.
  const bring = (index) => { const row = index !== null && box.current && box.current.querySelector(`[data-event="${index}"]`); if (row) { row.scrollIntoView({ block: "center" }); row.focus(); } };
  useEffect(() => bring(at), [at]);
  useEffect(() => bring(back), [back]);
  const shut = (index) => setOpened(({ [index]: _, ...others }) => others);
  const look = (index) => {
    if (index in opened) { shut(index); return; }
    setOpened((old) => ({ ...old, [index]: "" }));
    ask("event", { session, index }).then((event) => setOpened((old) => (index in old ? { ...old, [index]: event } : old)), (e) => { shut(index); setError(e.message); });
  };
  const close = () => { setBeside(null); setBack(forkedAt.current); };
  if (beside) return html`<${SideBySide} left=${session} film=${film} right=${beside} open=${open} close=${close} />`;
  return html`<div data-testid="events" ref=${box}><${Problem} text=${error} />
    ${forking && html`<${Fork} event=${forking} session=${session} close=${() => setForking(null)} made=${(fork) => { forkedAt.current = forking.index; setBack(null); setForking(null); setBeside(fork); }} />`}
    ${film.hidden.length > 0 && html`<p class="dim">Placeholders stand where the agents hide a value.${!embedded && " “All of it” shows an event as it is stored."}</p>`}
    <div class="log">${film.events.slice(0, drawn).map((e) => html`<div key=${e.id} data-event=${e.index} tabindex="-1" class=${`entry ${e.index === at ? "here" : ""}`}><span class="n dim">${e.index + 1}</span><span class="who"><b>${e.author}</b>${e.branch ? html`<span class="dim"> ${e.branch}</span>` : ""}</span>
      <div class="what">${(opened[e.index] ? said(opened[e.index]) : e.text).trim() && html`<${Prose} text=${opened[e.index] ? said(opened[e.index]) : e.text} />`}${e.calls.map((c) => html`<pre class="text calls">→ ${c.name} ${c.text}</pre>`)}${e.results.map((r) => html`<pre class="text results">← ${r.name} ${r.text}</pre>`)}${e.media.map((m) => html`<${Media} session=${session} event=${e.id} part=${m.part} mime=${m.mime} />`)}${e.error && html`<div class="red">${e.error}</div>`}${Object.entries(e.state).map(([k, v]) => html`<div class="mono dim">${k} = ${short(v, 120)}</div>`)}${opened[e.index] && html`<pre class="text card">${JSON.stringify(opened[e.index], null, 2)}</pre>`}</div>
      <span class="acts">${!embedded && html`<button aria-expanded=${e.index in opened} onClick=${() => look(e.index)}>${e.index in opened ? "less" : "all of it"}</button>`} ${!embedded && film.can_fork && html`<button onClick=${() => setForking(e)} title="go on from before this event, in a new session">fork here</button>`}</span></div>`)}</div>
    ${film.events.length === 0 && html`<${Empty} title="The log is empty.">Say something to the agent.<//>`}</div>`;
}

// How much of a long list is drawn: some at once, the rest in the pauses after it.
function useGrowth(start, most) {
  const [drawn, set] = useState(Math.min(start, most));
  useEffect(() => { const timer = drawn < most ? setTimeout(() => set(Math.min(most, drawn + 60)), 0) : 0; return () => clearTimeout(timer); }, [drawn, most]);
  return drawn;
}

// A new session of what came before an event, with another message or other values in the state.
function Fork({ event, session, close, made }) {
  const isUser = event.author === "user";
  const [text, setText] = useState(isUser ? null : "");
  const [state, setState] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const newest = useNewest();
  useEffect(() => { if (isUser) ask("event", { session, index: event.index }).then((whole) => setText(said(whole)), (e) => { setText(""); setError(e.message); }); }, []);
  const go = (e) => {
    e.preventDefault();
    let values = null;
    try { values = state.trim() ? JSON.parse(state) : null; } catch (problem) { setError(`The state is no JSON: ${problem.message}`); return; }
    if (values !== null && (typeof values !== "object" || Array.isArray(values))) { setError('The state is an object: {"key": "value"}'); return; }
    setBusy(true);
    const isWanted = newest(); // who has closed the dialog meanwhile is left alone: the fork is in the list
    posted(`inspect/api/fork?session=${encodeURIComponent(session)}&event=${event.index}`, { text: text || "", state: values }).then((fork) => isWanted() && made(fork), (problem) => { setBusy(false); setError(problem.message); });
  };
  return html`<${Dialog} title=${`Go on from before event ${event.index + 1}`} close=${close}><form onSubmit=${go}>
      <p class="dim">A new session begins with the ${many(event.index, "event")} before this one. ${isUser ? "Say it otherwise, or change the state:" : "The agent goes on from there, or with another message:"}</p>
      <label>message<textarea rows="4" disabled=${text === null} value=${text || ""} placeholder=${isUser ? "" : "empty: the agent goes on by itself"} onInput=${(e) => setText(e.target.value)}></textarea></label>
      <label>state to change, as JSON<input type="text" value=${state} placeholder=${'{"seat": "window"}'} onInput=${(e) => setState(e.target.value)} /></label>
      <${Problem} text=${error} /><div class="bar"><button class="on" disabled=${busy || text === null}>${busy ? "…" : "fork and go on"}</button></div></form><//>`;
}

const namesOf = (list) => list.map((one) => one.name).join();

// Two sessions next to each other: what they share is folded, what differs runs live.
function SideBySide({ left, film, right, open, close }) {
  const [version, setVersion] = useState(0);
  const other = useAnswer("film", { session: right.key, version: version || "" });
  const first = useRef(null);
  useEffect(() => first.current.focus(), []);
  useEffect(() => listen(() => `inspect/api/live?session=${encodeURIComponent(right.key)}&after=0`, { grown: (e) => { setVersion(Number(e.data)); }, gone: () => "close" }), [right.key]);
  const mine = film.events, yours = other.data ? other.data.events : [];
  const same = useMemo(() => { let n = 0; while (n < mine.length && n < yours.length && mine[n].author === yours[n].author && mine[n].text === yours[n].text && namesOf(mine[n].calls) === namesOf(yours[n].calls)) n++; return n; }, [mine, yours]);
  const column = (name, summary, events, key) => html`<section aria-label=${name}><div class="bar"><b>${name}</b><span class="dim">${many(summary.steps, "call")} · ${number(summary.tokens)} tokens · ${cachedShare(summary)} cached · ${cost(summary.cost, summary.money)}${summary.unpriced ? ` · ${unpriced(summary, summary.steps)}` : ""}</span>${key && html`<button onClick=${() => open(key)}>open it</button>`}</div>
    ${events.slice(same).map((e) => html`<${Bubble} author=${e.author} text=${e.text} calls=${e.calls.map((c) => `${c.name} ${c.text}`)} results=${e.results.map((r) => `${r.name} ${r.text}`)} error=${e.error} />`)}
    ${events.length <= same && html`<p class="dim">Nothing more yet.</p>`}</section>`;
  return html`<div data-testid="beside"><div class="bar"><h2>Side by side</h2><span class="dim">${many(same, "event")} in common</span><span class="grow"></span><button ref=${first} onClick=${close}>back to the log</button></div><${Problem} text=${other.error} />
    <div class="pairs" aria-live="polite">${column(film.session.id, film.session, mine, null)}${other.data ? column(`New session ${right.id.slice(0, 12)}`, other.data.session, yours, right.key) : html`<${Waiting} />`}</div></div>`;
}

const Bubble = ({ author, text, thought, calls = [], results = [], error, partial }) => html`<div class=${`bubble ${author === "user" && !results.length ? "user" : ""} ${partial ? "partial" : ""}`}><span class="dim">${author}</span>
  ${thought && html`<details><summary class="dim">thoughts</summary><div class="text dim">${thought}</div></details>`}${text && (partial ? html`<div class="text">${text}</div>` : html`<${Prose} text=${text} />`)}
  ${calls.map((one) => html`<div class="text calls">→ ${one}</div>`)}${results.map((one) => html`<div class="text results">← ${one}</div>`)}${error && html`<div class="red" role="alert">${error}</div>`}</div>`;

function bubbleOf(event) {
  const parts = (event.content && event.content.parts) || [];
  return {
    author: event.author, text: said(event), thought: said(event, true),
    calls: parts.filter((p) => p.functionCall && !p.functionCall.name.startsWith("adk_request_")).map((p) => `${spelled(p.functionCall.name)}(${short(spelled(JSON.stringify(p.functionCall.args || {})), 300)})`),
    results: parts.filter((p) => p.functionResponse && !p.functionResponse.name.startsWith("adk_request_")).map((p) => `${spelled(p.functionResponse.name)}: ${short(spelled(JSON.stringify(p.functionResponse.response || {})), 300)}`),
    error: event.errorCode ? [event.errorCode, event.errorMessage].filter(Boolean).join(": ") : "",
  };
}

// What is typed in the chat of a session, whether it travels, and what went wrong with it. It stays
// while another view is open: what does not arrive is there when the user comes back.
const drafts = shared({});
const BLANK = { text: "", busy: false, error: "" };
const draftOf = (session) => drafts.get()[session] || BLANK;
const redraft = (session, part) => drafts.set({ ...drafts.get(), [session]: { ...draftOf(session), ...part } });

export function Chat({ session, film }) {
  const { text, busy, error } = useShared(drafts)[session] || BLANK;
  const [answered, setAnswered] = useState(null);
  const live = useShared(feed), end = useRef(null), field = useRef(null), near = useRef(true);
  const events = live.session === session ? live.events : [];
  const [all, setAll] = useState(false);
  const shown = useMemo(() => (all ? events : events.slice(-60)).map(bubbleOf).filter((one) => one.text || one.thought || one.calls.length || one.results.length || one.error), [events, all]);
  useEffect(() => { const look = () => { near.current = innerHeight + scrollY > document.documentElement.scrollHeight - 200; }; addEventListener("scroll", look); return () => removeEventListener("scroll", look); }, []);
  useEffect(() => { if (end.current && near.current) end.current.scrollIntoView({ block: "end" }); }, [events.length, film.waiting.length, live.partial]);
  // In a layout effect: what is typed as soon as the field is seen goes into it.
  useLayoutEffect(() => { if (field.current) field.current.focus({ preventScroll: true }); }, []);
  const waiting = useQuestions(session, film);
  if (embedded || !film.can_chat) return html`<div data-testid="chat"><${Empty} title="These sessions can only be looked at."><p>To talk to the agent, serve it:</p><p class="bar command"><code class="text">weft serve pkg.module:agent</code></p><//></div>`;
  const { base, query } = addressOf(session);
  const last = events[events.length - 1];
  const running = Boolean(live.partial) || (last && !film.waiting.length && !last.errorCode && (last.author === "user" || isCall(last)));
  const post = (path, body, arrived) => {
    redraft(session, { busy: true, error: "" });
    near.current = true;
    posted(`inspect/api/${path}?session=${encodeURIComponent(session)}`, body).then(arrived, (e) => redraft(session, { error: e.message })).finally(() => redraft(session, { busy: false }));
  };
  const stop = () => posted(`${base}/cancel?${query}`, {}).catch((e) => redraft(session, { error: e.message }));
  // The field is emptied when the message has arrived, unless the user has typed on meanwhile.
  const send = () => text.trim() && !draftOf(session).busy && post("say", { text }, () => draftOf(session).text === text && redraft(session, { text: "" }));
  return html`<div class="chat" data-testid="chat">
    ${events.length > 60 && !all ? html`<p><button class="link" onClick=${() => setAll(true)}>show earlier words</button></p>` : film.session.events > events.length && shown.length > 0 && html`<p class="dim">Earlier events are in the log.</p>`}
    ${shown.length === 0 && html`<${Empty} title="Say something to the agent.">The strip above grows with every call it makes.<//>`}
    <div role="log" aria-live="polite" aria-label="conversation">${shown.map((one) => html`<${Bubble} ...${one} />`)}
      ${live.partial && html`<div aria-live="off" data-testid="partial"><${Bubble} ...${live.partial} partial=${true} /></div>`}</div>
    ${running && html`<div class="bar dim" role="status"><span class="pulse"></span>working… <button onClick=${stop}>stop</button></div>`}
    ${waiting.map((w) => html`<${Question} key=${w.id} asked=${w} post=${(body) => post("answer", body, () => { setAnswered(film); if (field.current) field.current.focus({ preventScroll: true }); })} busy=${busy || answered === film} />`)}
    <${Problem} text=${error} />
    <form class="say" onSubmit=${(e) => { e.preventDefault(); send(); }}><textarea rows="2" ref=${field} aria-label="message" placeholder="message; Enter sends, Shift+Enter begins a line" value=${text} onInput=${(e) => redraft(session, { text: e.target.value })} onKeyDown=${(e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); } }}></textarea><button class="on" disabled=${busy || !text.trim()}>${busy ? "…" : "send"}</button></form><div ref=${end}></div></div>`;
}

// The open questions. The strip has them as they may be shown to anybody; who answers sees all of them.
function useQuestions(session, film) {
  const [stored, setStored] = useState([]);
  const ids = film.waiting.map((one) => one.id).join();
  useEffect(() => {
    if (!ids || !film.can_chat || !film.hidden.length) return undefined;
    let live = true;
    const { base, query } = addressOf(session);
    fetched(`${base}/questions?${query}`).then((asked) => live && setStored(asked), () => {}); // it shows what the strip has
    return () => { live = false; };
  }, [session, ids]);
  return film.waiting.map((one) => stored.find((other) => other.id === one.id) || one);
}

const isCall = (event) => ((event.content && event.content.parts) || []).some((p) => p.functionCall || p.functionResponse);

// A question that is open, with what it is about, and the way to answer its kind.
export function Question({ asked, post, busy }) {
  const [value, setValue] = useState("");
  const args = asked.kind === "input" ? "" : JSON.stringify(asked.args);
  const choices = (asked.args.payload && asked.args.payload.choices) || [];
  const reply = (e) => { e.preventDefault(); if (value.trim()) post({ id: asked.id, value }); };
  return html`<div class="bubble question" role="group" aria-label=${`question of ${asked.name}`}><span><b>${spelled(asked.name)}</b> waits for an answer</span>
    <div>${spelled(asked.question)}</div>${args && args !== "{}" && !asked.question.includes(args) && html`<div class="text">${short(spelled(args), 2000)}</div>`}
    ${asked.kind === "confirm" ? html`<div class="bar"><button class="on" disabled=${busy} onClick=${() => post({ id: asked.id, approve: true })}>approve</button>
        <span class="together"><input type="text" placeholder="why not" aria-label="reason" value=${value} onInput=${(e) => setValue(e.target.value)} /><button disabled=${busy} onClick=${() => post({ id: asked.id, approve: false, reason: value })}>deny</button></span></div>`
      : choices.length ? html`<div class="bar">${choices.map((c) => html`<button disabled=${busy} onClick=${() => post({ id: asked.id, value: c })}>${spelled(String(c))}</button>`)}</div>`
      : html`<form class="bar" onSubmit=${reply}><input type="text" aria-label="answer" value=${value} onInput=${(e) => setValue(e.target.value)} /><button disabled=${busy}>answer</button></form>`}</div>`;
}
