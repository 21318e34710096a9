// The inspector: one page over the JSON of /inspect/api, or over data embedded in the page.
import { html, render, useState, useEffect, useCallback, useErrorBoundary, useLayoutEffect, useRef } from "./vendor/htm-preact.js";
import {
  Dialog, Empty, Problem, Ticked, Waiting, ago, cachedShare, cost, embedded, fetched, forgetAnswers, many, number, posted, trouble, unpriced,
  useAnswer, useNewest, useShared,
} from "./common.js";
import { Diagnosis } from "./answer.js";
import { Film } from "./film.js";
import { Request, light } from "./request.js";
import { Bisect, Cache, Compare, DeadWeight, Graph, LeftOut, Receipt, Trust, WhatIf } from "./views.js";
import { Chat, Events, Question, addressOf, follow } from "./talk.js";

const TABS = [
  ["request", "Request", Request], ["left", "Left out", LeftOut], ["cache", "Cache", Cache], ["whatif", "What if", WhatIf], ["bisect", "Bisect", Bisect],
  ["weight", "Dead weight", DeadWeight], ["graph", "Graph", Graph], ["trust", "Trust", Trust], ["events", "Events", Events], ["chat", "Chat", Chat],
  ["receipt", "Receipt", Receipt], ["compare", "Compare", Compare],
];
const KEYS = [
  ["← →", "the call before, the next"], ["Shift ← →", "ten calls"], ["Home End", "the first call, the last"], ["1 … 9, 0", "the views, from Request to Chat; on the name of a view, ← → go to the others"],
  ["r", "the request as messages, or as JSON"], ["m", "Markdown as it is meant, or as it is written"], ["/ or Ctrl+F", "find in the request"], ["Enter, Shift Enter", "in the search: the next hit, the one before"],
  ["↓ ↑", "in the text: from piece to piece, with its origin"], ["Enter", "in the text: the passes that made this piece"],
  ["Tab", "from part to part"], ["Esc", "close, or clear the light"], ["?", "this list"],
];

// The address holds what is shown: #session/step/view.
function readAddress() {
  const [session = "", step = "", tab = ""] = location.hash.slice(1).split("/");
  return { session: decodeURIComponent(session), step: Number(step) || 0, tab: TABS.some(([id]) => id === tab) ? tab : "request" };
}

function App() {
  const [place, setPlace] = useState(readAddress);
  const [help, setHelp] = useState(false);
  // The session that was shown last: the list begins at its line.
  const last = useRef("");
  last.current = place.session || last.current;
  useEffect(() => {
    const back = () => setPlace(readAddress());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  useEffect(() => {
    const press = (e) => { if (e.key === "?" && !isTyping(e)) { setHelp(true); e.preventDefault(); } };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const open = (session, tab) => {
    const next = { session, step: 0, tab: tab || "request" };
    history.pushState(null, "", session ? hashOf(next) : location.pathname + location.search);
    light(null);
    setPlace(next);
    scrollTo(0, 0);
  };
  return html`<${Trouble} />
    ${place.session ? html`<${Session} key=${place.session} place=${place} setPlace=${setPlace} open=${open} help=${() => setHelp(true)} />` : html`<${Sessions} open=${open} left=${last.current} help=${() => setHelp(true)} />`}
    ${help && html`<${Dialog} title="Keys" close=${() => setHelp(false)}><table class="keys"><tbody>${KEYS.map(([keys, what]) => html`<tr><th><kbd>${keys}</kbd></th><td>${what}</td></tr>`)}</tbody></table><//>`}`;
}

const hashOf = ({ session, step, tab }) => `#${encodeURIComponent(session)}/${step || "last"}/${tab}`;
const isTyping = (e) => /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey || Boolean(document.querySelector("dialog[open]"));
const Trouble = () => { const text = useShared(trouble); return text ? html`<div class="trouble" role="alert">${text}</div>` : null; };

function Session({ place, setPlace, open, help }) {
  const { session, step, tab } = place;
  const [version, setVersion] = useState(0);
  const [at, setAt] = useState(null);
  const film = useAnswer("film", { session, version: version || "" });
  const asking = useRef(false);
  asking.current = film.busy;
  const ghosts = useAnswer("ghosts", { session, version: version || "" }, Boolean(film.data && film.data.frames.length));
  const frames = film.data ? film.data.frames : [];
  const now = Math.min(step || frames.length, frames.length);
  const move = (change) => setPlace((old) => { const next = { ...old, ...change }; history.replaceState(null, "", hashOf(next)); return next; });
  // At the last step the page goes on with the session.
  const go = useCallback((n) => move({ step: n >= frames.length ? 0 : Math.max(1, n) }), [frames.length]);
  const choose = (id) => { setAt(null); light(null); move({ tab: id }); };
  const show = (id, event) => { choose(id); setAt(event); };
  const panel = useRef(null);
  useEffect(() => { if (document.activeElement === document.body) panel.current.focus({ preventScroll: true }); }, [tab]);
  useSessionKeys({ now, go, choose, last: frames.length });
  useEffect(() => {
    if (embedded || !film.data) return undefined;
    let timer = 0;
    // A film that travels is drawn before the next one is asked for: a session that grows fast is seen to grow.
    const again = () => {
      timer = asking.current ? setTimeout(again, 60) : 0;
      if (!timer) { forgetAnswers(); setVersion((v) => v + 1); }
    };
    const soon = () => { timer = timer || setTimeout(again, 60); };
    const close = follow(session, film.data, { grown: soon, gone: soon });
    return () => { clearTimeout(timer); close(); };
  }, [session, Boolean(film.data)]);
  const [, title, View] = TABS.find(([id]) => id === tab);
  const isReady = film.data && (frames.length > 0 || tab === "chat" || tab === "events");
  return html`
    <header>
      <div class="bar">
        ${!embedded && html`<button onClick=${() => open("")} title="all sessions">‹ Sessions</button>`}
        <h1 title=${film.data ? film.data.session.first : ""}>${film.data ? film.data.session.first || film.data.session.id : "Session"}</h1>${film.data && film.data.session.first && html`<code class="dim id" title="the id of the session">${film.data.session.id}</code>`}
        ${film.data && html`<${Totals} summary=${film.data.session} film=${film.data} show=${show} />`}
        <span class="grow"></span>
        ${!embedded && html`<${Export} session=${session} hidden=${film.data ? film.data.hidden : []} />`}
        <button onClick=${() => go(now - 1)} disabled=${now <= 1} aria-label="call before">←</button>
        <span data-testid="step">${now} / ${frames.length}</span><${Arrivals} count=${frames.length} isLast=${now === frames.length} go=${go} />
        <button onClick=${() => go(now + 1)} disabled=${now >= frames.length} aria-label="next call">→</button>
        <button onClick=${help} aria-label="keys" title="keys">?</button>
      </div>
      <${Tabs} tab=${tab} choose=${choose} />
    </header>
    <main>
      ${film.error && (film.status === 404 ? html`<${Empty} title="This session is gone."><p role="alert">${film.error}</p><button onClick=${() => open("")}>all sessions</button><//>` : html`<${Problem} text=${film.error} />`)}
      ${!film.data && !film.error && html`<${Waiting} />`}
      ${embedded && film.data && html`<${FileKind} file=${film.data.file} />`}
      ${film.data && film.data.notice && html`<p class="note"><${Ticked} text=${film.data.notice} /></p>`}
      ${frames.length > 0 && html`<${Diagnosis} session=${session} version=${version} go=${go} show=${show} />`}
      ${frames.length > 0 && html`<${Film} film=${film.data} ghosts=${ghosts.data} now=${now} go=${go} />`}
      <div role="tabpanel" id="view" aria-label=${title} tabindex="-1" ref=${panel}>
        ${film.data && !isReady && html`<${Empty} title="No model was asked yet.">${film.data.can_chat ? html`<button class="on" onClick=${() => choose("chat")}>talk to the agent</button>` : "When the agent runs, its requests appear here."}<//>`}
        ${isReady && html`<${Guarded} key=${tab}><${View} session=${session} step=${now} version=${version} film=${film.data} go=${go} show=${show} at=${at} open=${open} /><//>`}</div>
    </main>`;
}

// The session as a file: redacted as the agents' policies say, or all that is stored.
function Export({ session, hidden }) {
  const address = `inspect/api/export?session=${encodeURIComponent(session)}`;
  const [title, other] = hidden.length ? [`without what the agents hide: ${hidden.join(", ")}`, true] : ["the log as it is stored: no agent hides anything", false];
  return html`<span class="hide exports"><a href=${address} title=${title} download>Export as one file</a>${other && html` <span class="dim">redacted, or</span> <a href=${`${address}&raw=true`} title=${`with what the agents hide: ${hidden.join(", ")}`} download>as stored</a>`}</span>`;
}

// The calls that came since another one than the last is looked at; a click goes to the newest.
function Arrivals({ count, isLast, go }) {
  const known = useRef(0);
  if (isLast || !known.current) known.current = count;
  const fresh = count - known.current;
  return html`<span role="status" class="arrivals">${fresh > 0 && html`<button class="badge" data-testid="arrivals" onClick=${() => go(count)} title=${`go to call ${count}`}>${number(fresh)} new</button>`}</span>`;
}

// What an exported file holds.
const FileKind = ({ file }) => html`<p class=${`note ${file.redacted || !file.rules.length ? "" : "warning"}`} data-testid="file">${file.redacted
  ? html`<b>Redacted file.</b> Placeholders stand where the agents' rules found a value: ${file.rules.join(", ")}.`
  : html`<b>File as stored.</b> ${file.rules.length ? `It holds the log with all values, also those that the agents hide: ${file.rules.join(", ")}. Send it only to people who may read the session.` : "It holds the log with all values: no agent redacts anything."}`}</p>`;

// A view that fails says so, and leaves the others alone.
function Guarded({ children }) {
  const [error, reset] = useErrorBoundary();
  return error ? html`<${Problem} text=${`This view failed: ${error.message || error}`} /><button onClick=${reset}>try again</button>` : children;
}

// In a layout effect: the step that is shown is the step that the next key starts from.
function useSessionKeys({ now, go, choose, last }) {
  useLayoutEffect(() => {
    const press = (e) => {
      const find = document.querySelector("[data-find]");
      if ((e.ctrlKey || e.metaKey) && e.key === "f" && find && document.activeElement !== find) { find.focus(); find.select(); e.preventDefault(); return; }
      if (isTyping(e) || (e.target.getAttribute && e.target.getAttribute("role") === "tab" && /Arrow/.test(e.key))) return;
      const by = e.shiftKey ? 10 : 1;
      if (e.key === "ArrowLeft") go(now - by);
      else if (e.key === "ArrowRight") go(now + by);
      else if (e.key === "Home") go(1);
      else if (e.key === "End") go(last);
      else if (/^(PageUp|PageDown)$/.test(e.key) && e.target.getAttribute("role") === "slider") go(now + (e.key === "PageUp" ? 10 : -10));
      else if (e.key === "/" && find) { find.focus(); find.select(); }
      else if (e.key === "Escape") light(null);
      else if (/^[0-9]$/.test(e.key)) choose(TABS[(Number(e.key) + 9) % 10][0]);
      else return;
      e.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [now, go, choose, last]);
}

// Tab reaches the view that is chosen; arrows go to the others.
function Tabs({ tab, choose }) {
  const box = useRef(null);
  useEffect(() => { const on = box.current.querySelector(".on"); if (on) on.scrollIntoView({ block: "nearest", inline: "nearest" }); }, [tab]);
  const press = (e) => {
    const n = TABS.findIndex(([id]) => id === tab);
    const to = { ArrowRight: n + 1, ArrowLeft: n - 1, ArrowDown: n + 1, ArrowUp: n - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = (to + TABS.length) % TABS.length;
    choose(TABS[next][0]);
    box.current.children[next].focus();
  };
  // After a click the arrows are for the steps again.
  const click = (e, id) => { choose(id); if (e.detail) e.currentTarget.blur(); };
  return html`<nav class="tabs" role="tablist" aria-label="views" ref=${box} onKeyDown=${press}>
    ${TABS.map(([id, name]) => html`<button role="tab" aria-selected=${tab === id} aria-controls="view" tabindex=${tab === id ? 0 : -1} class=${tab === id ? "on" : ""} onClick=${(e) => click(e, id)}>${name}</button>`)}</nav>`;
}

const spent = (s, calls) => [`${number(s.tokens)} tokens`, `${cachedShare(s)} cached`, cost(s.cost, s.money), unpriced(s, calls)].filter(Boolean).join(" · ");
const UNCOUNTED = (s) => (s.uncounted ? `, without ${many(s.uncounted, "call")} that it did not count` : "");
// A recording's figures are those that were billed; what Weft counts of it may lack what the file does not hold.
const Totals = ({ summary: s, film, show }) => html`<span class="dim totals">
  ${s.errors ? html`<button class="link red" onClick=${() => show("events", (film.events.find((e) => e.error) || { index: null }).index)}>${many(s.errors, "error")}</button><span>·</span>` : ""}
  ${s.waiting ? html`<span class="red">${s.waiting} waiting</span><span>·</span>` : ""}
  <span class="spent">${many(s.steps, "call")} · ${s.imported && s.reported
    ? html`<span title=${`counted by the provider, with the answers${UNCOUNTED(s.reported)}; ${film.prices}; Weft counts ${number(s.tokens)} tokens in what the file holds`}>${spent(s.reported, s.steps)}</span>`
    : html`<span title=${`${spent(s, s.steps)}: counted by Weft, without the answers; ${film.prices}`}>${spent(s, s.steps)}</span>
  ${s.reported && html` <span title=${`${spent(s.reported, s.steps)}: counted by the provider, with the answers${UNCOUNTED(s.reported)}`}>(${s.reported.tokens === s.tokens && s.reported.cached === s.cached ? `with the answers ${cost(s.reported.cost, s.reported.money)}` : `reported: ${spent(s.reported, s.steps)}`})</span>`}`}</span></span>`;

// All sessions, with what they cost and what they wait for.
const COLUMNS = [["id", "session"], ["app", "app"], ["user", "user"], ["agents", "agent"], ["models", "model"], ["steps", "calls"], ["tokens", "tokens"], ["cached", "cached"], ["cost", "cost"], ["waiting", "alerts"], ["updated", "last"]];
const LISTED_WORDS = ["id", "app", "user", "agents", "models", "waiting"];
const namesIn = (list) => (list && list.length ? (list.length > 2 ? `${list[0]} and ${list.length - 1} more` : list.join(", ")) : "");
const MOST_ALONE = 5;

// Calls that remember nothing, many of one agent and model, are one line that opens.
function groupAlone(rows, opened) {
  const alone = new Map(), keyOf = (s) => (s.steps === 1 && !s.waiting && s.agents ? JSON.stringify([s.app, s.agents, s.models]) : "");
  for (const s of rows) if (keyOf(s)) alone.set(keyOf(s), [...(alone.get(keyOf(s)) || []), s]);
  const out = [], seen = new Set();
  for (const s of rows) {
    const key = keyOf(s), list = alone.get(key) || [];
    if (list.length < MOST_ALONE) { out.push(s); continue; }
    if (!seen.has(key)) { seen.add(key); out.push({ group: key, list }); }
    if (opened.has(key)) out.push(s);
  }
  return out;
}

// Recordings may have no times, only an order.
const timeOf = (s) => (s.updated > 1e8 ? s.updated : 0);

function Sessions({ open, left, help }) {
  const [search, setSearch] = useState("");
  const [late, setLate] = useState("");
  useEffect(() => { const timer = setTimeout(() => setLate(search.trim()), search ? 200 : 0); return () => clearTimeout(timer); }, [search]);
  const [filter, setFilter] = useState({ agent: "", model: "", errors: false });
  const [opened, setOpened] = useState(new Set());
  const [version, setVersion] = useState(0);
  const [sort, setSort] = useState(["updated", -1]);
  const [asking, setAsking] = useState("");
  const [fault, setFault] = useState("");
  const [apps, setApps] = useState([]);
  const { data, error, busy } = useAnswer("sessions", { search: late, version: version || "" });
  const notices = useAnswer("notices", { version: version || "" }).data || [];
  const [all, setAll] = useState([]);
  useEffect(() => { if (data && !late && !busy) setAll(data); }, [data, late, busy]);
  useEffect(() => { fetched("api/apps").then((list) => setApps(list.map((one) => one.name)), () => {}); }, []);
  useRefresh(() => setVersion((v) => v + 1), busy, (data || []).some((s) => s.counting) || notices.some((text) => text.endsWith("…")));
  const fits = (s) => (!filter.agent || (s.agents || []).includes(filter.agent)) && (!filter.model || (s.models || []).includes(filter.model)) && (!filter.errors || s.errors);
  const choices = (name) => [...new Set(all.flatMap((s) => s[name] || []))].sort();
  const columns = COLUMNS.filter(([id]) => !["app", "user", "agents", "models", "tokens", "cached", "cost", "updated"].includes(id) || (data || []).some((s) => (id === "updated" ? timeOf(s) : id === "tokens" || id === "cached" || id === "cost" ? s.tokens || s.counting : id === "agents" || id === "models" ? (s[id] || []).length : s[id])));
  const has = new Set(columns.map(([id]) => id));
  const rows = (data || []).filter(fits).sort((a, b) => { const [x, y] = [a, b].map((s) => (sort[0] === "updated" ? timeOf(s) : sort[0] === "cached" ? (s.tokens ? s.cached / s.tokens : 0) : LISTED_WORDS.includes(sort[0]) ? String(s[sort[0]] ?? "") : s[sort[0]] ?? 0)); return (x < y ? -1 : x > y ? 1 : 0) * sort[1]; });
  // Who comes back from a session is at its line, and who has answered there too.
  const focusOn = (key) => { const link = [...document.querySelectorAll("a.open")].find((one) => one.getAttribute("href") === hrefOf(key)); if (link) link.focus(); };
  useEffect(() => { if (data && document.activeElement === document.body) focusOn(left); }, [Boolean(data)]);
  const newest = useNewest();
  const [beginning, setBeginning] = useState(false);
  // Who has opened another session meanwhile stays there: the new one is in the list.
  const begin = (app) => {
    const isWanted = newest();
    setBeginning(true);
    setFault("");
    posted(`api/apps/${encodeURIComponent(app)}/sessions`, {})
      .then((made) => isWanted() && open(JSON.stringify([made.app, made.user, made.id]), "chat"), (e) => setFault(e.message)).finally(() => setBeginning(false));
  };
  const arrows = (e) => {
    if (!/^Arrow(Up|Down)$/.test(e.key) || isTyping(e)) return;
    const links = [...e.currentTarget.querySelectorAll("a.open")], next = links[links.indexOf(document.activeElement) + (e.key === "ArrowDown" ? 1 : -1)];
    if (next) { next.focus(); e.preventDefault(); }
  };
  const waiting = (data || []).reduce((n, s) => n + (s.waiting || 0), 0);
  return html`
    <header><div class="bar"><h1>Weft inspector</h1><span class="dim hide">every request, and why it is what it is</span><span class="grow"></span>
      <${NewSession} apps=${apps} begin=${begin} busy=${beginning} /><input type="search" placeholder="search in the texts" aria-label="search sessions" value=${search} onInput=${(e) => setSearch(e.target.value)} /><button onClick=${help} aria-label="keys" title="keys">?</button></div></header>
    <main class="list">
      <${Problem} text=${error || fault} />
      ${notices.map((text) => html`<p class="note warning"><${Ticked} text=${text} /></p>`)}
      <${Filters} filter=${filter} set=${setFilter} agents=${choices("agents")} models=${choices("models")} errors=${all.some((s) => s.errors)} />
      ${!data && !error && html`<${Waiting} />`}
      ${data && rows.length === 0 && (all.length ? html`<${Empty} title="No session fits that."><button onClick=${() => { setSearch(""); setFilter({ agent: "", model: "", errors: false }); }}>show all ${all.length}</button><//>` : html`<${Empty} title="No session yet.">${apps.length ? "Begin one above, or run the agent: it appears here." : "Run the agent, and it appears here."}<p class="dim">Traces of other programs arrive at <code>weft inspect --listen</code>. An exporter that speaks gRPC sends nothing there: set <code>OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf</code>.</p><//>`)}
      ${rows.length > 0 && html`<p class="dim">${many(rows.length, "session")}${waiting > 0 && html` · <b class="accent">${many(waiting, "question")} ${waiting === 1 ? "waits" : "wait"} for an answer</b>`}</p>
      <table class="stack" data-testid="sessions" onKeyDown=${arrows}><thead><tr>${columns.map(([id, name]) => html`<th class=${LISTED_WORDS.includes(id) ? "" : "n"} aria-sort=${sort[0] === id ? (sort[1] > 0 ? "ascending" : "descending") : "none"}><button class="plain" onClick=${() => setSort([id, sort[0] === id ? -sort[1] : LISTED_WORDS.includes(id) ? 1 : -1])}>${name}${sort[0] === id ? (sort[1] > 0 ? " ↑" : " ↓") : ""}</button></th>`)}</tr></thead>
        <tbody>${groupAlone(rows, opened).map((s) => (s.group ? html`<${Group} key=${s.group} one=${s} columns=${columns.length} isOpen=${opened.has(s.group)} toggle=${() => setOpened((old) => { const next = new Set(old); if (!next.delete(s.group)) next.add(s.group); return next; })} />` : html`<${Line} key=${s.key} s=${s} open=${open} asking=${asking === s.key} setAsking=${setAsking} answered=${() => { setAsking((now) => (now === s.key ? "" : now)); setVersion((v) => v + 1); focusOn(s.key); }} canAnswer=${apps.includes(s.app)} has=${has} />`))}</tbody></table>`}
    </main>`;
}

const Filters = ({ filter, set, agents, models, errors }) => (agents.length > 1 || models.length > 1 || errors) && html`<div class="bar" role="group" aria-label="filters">
  ${[["agent", agents], ["model", models]].map(([name, list]) => list.length > 1 && html`<select aria-label=${name} value=${filter[name]} onChange=${(e) => set({ ...filter, [name]: e.target.value })}><option value="">every ${name}</option>${list.map((one) => html`<option value=${one}>${one}</option>`)}</select>`)}
  ${errors && html`<button aria-pressed=${filter.errors} class=${filter.errors ? "on" : ""} onClick=${() => set({ ...filter, errors: !filter.errors })}>with errors</button>`}</div>`;

const Group = ({ one, columns, isOpen, toggle }) => {
  const sum = (name, list = one.list) => list.reduce((n, s) => n + (s[name] || 0), 0), first = one.list[0];
  const priced = one.list.filter((s) => s.money), missing = unpriced({ unpriced: priced.length && one.list.length - priced.length }, one.list.length);
  return html`<tr class="group"><td class="whole" colspan=${columns}><button class="plain" aria-expanded=${isOpen} onClick=${toggle}>${isOpen ? "▾" : "▸"} <b>${many(one.list.length, "single call")}</b> of ${namesIn(first.agents)}${first.models.length ? ` · ${namesIn(first.models)}` : ""} · ${number(sum("tokens"))} tokens · ${cost(sum("cost", priced.length ? priced : one.list), priced.length > 0)}${missing && ` · ${missing}`}</button></td></tr>`;
};

const hrefOf = (key) => `#${encodeURIComponent(key)}`;

function Line({ s, open, asking, setAsking, answered, canAnswer, has }) {
  const cell = (id, name, content) => has.has(id) && html`<td class=${`${name} of-${id}`}>${content}</td>`;
  const href = hrefOf(s.key);
  const go = (e) => { if (e.ctrlKey || e.metaKey || e.shiftKey) return; e.preventDefault(); open(s.key); };
  const badge = s.waiting ? (canAnswer ? html`<button class="badge" aria-expanded=${asking} onClick=${(e) => { e.stopPropagation(); setAsking(asking ? "" : s.key); }}>${s.waiting} waiting: answer</button>` : html`<span class="badge">${s.waiting} waiting</span>`) : "";
  return html`<tr class="pick" onClick=${go}><td class="whole"><a class="open" href=${href} onClick=${(e) => { e.stopPropagation(); go(e); }}>${s.first || s.id}</a>${(s.hit || s.first) && html`<div class="first">${s.hit ? `… ${s.hit} …` : html`<code>${s.id}</code>`}</div>`}</td>${cell("app", "", html`<span title=${s.app}>${s.app}</span>`)}${cell("user", "", html`<span title=${s.user}>${s.user}</span>`)}${cell("agents", "", html`<span title=${(s.agents || []).join(", ")}>${namesIn(s.agents)}</span>`)}${cell("models", "mono", html`<span title=${(s.models || []).join(", ")}>${namesIn(s.models)}</span>`)}${cell("steps", "n", html`${number(s.steps)}<span class="unit">${s.steps === 1 ? " call" : " calls"}</span>`)}
      ${cell("tokens", "n", s.tokens ? html`<span title=${s.counted ? "counted by Weft, without the answers: the provider reported nothing" : "reported by the provider"}>${s.counted ? "≈ " : ""}${number(s.tokens)}<span class="unit"> tok</span></span>` : s.counting ? html`<span title="being counted: the provider reported nothing">…</span>` : "–")}${cell("cached", "n", s.tokens ? html`${cachedShare(s)}<span class="unit"> cached</span>` : "–")}${cell("cost", "n", s.tokens ? html`<span title=${unpriced(s, s.steps)}>${cost(s.cost, s.money)}${s.unpriced ? html`<div class="first">without ${many(s.unpriced, "call")}</div>` : ""}</span>` : "–")}
      <td>${s.errors ? html`<span class="badge red">${many(s.errors, "error")}</span>` : ""} ${badge}</td>
      ${has.has("updated") && html`<td class="n dim" title=${timeOf(s) ? new Date(s.updated * 1000).toLocaleString() : ""}>${timeOf(s) ? ago(s.updated) : ""}</td>`}</tr>
    ${asking && html`<tr class="answers"><td class="whole" colspan="10"><${Answers} session=${s.key} open=${open} answered=${answered} /></td></tr>`}`;
}

// The open questions of a session, answered in the list.
function Answers({ session, open, answered }) {
  const { base, query } = addressOf(session);
  const [asked, setAsked] = useState(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => { fetched(`${base}/questions?${query}`).then(setAsked, (e) => setError(e.message)); }, [session]);
  const post = (body) => { setBusy(true); posted(`inspect/api/answer?session=${encodeURIComponent(session)}`, body).then(answered, (e) => { setBusy(false); setError(e.message); }); };
  return html`<${Problem} text=${error} />${!asked && !error && html`<${Waiting} />`}
    ${asked && asked.map((one) => html`<${Question} key=${one.id} asked=${one} post=${post} busy=${busy} />`)}
    ${asked && html`<button class="link" onClick=${() => open(session, "chat")}>see the conversation</button>`}`;
}

function NewSession({ apps, begin, busy }) {
  const [app, setApp] = useState("");
  if (!apps.length) return null;
  return html`${apps.length > 1 && html`<select aria-label="app of the new session" value=${app || apps[0]} onChange=${(e) => setApp(e.target.value)}>${apps.map((one) => html`<option value=${one}>${one}</option>`)}</select>`}
    <button class="on" disabled=${busy} onClick=${() => begin(app || apps[0])}>New session</button>`;
}

// The list is read again while it can be seen, the less often the longer that takes.
function useRefresh(again, busy, isCounting) {
  const asked = useRef(Date.now());
  useEffect(() => {
    if (embedded) return undefined;
    if (busy) { asked.current = Date.now(); return undefined; }
    const took = Date.now() - asked.current;
    const pause = isCounting ? Math.max(500, took) : Math.max(3000, Math.min(60000, 30 * took));
    const timer = setTimeout(() => { if (!document.hidden) again(); }, pause);
    const seen = () => { if (!document.hidden) again(); };
    document.addEventListener("visibilitychange", seen);
    return () => { clearTimeout(timer); document.removeEventListener("visibilitychange", seen); };
  }, [busy, isCounting]);
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
