// What was left out, what was cached, what if, since when, dead weight, the graph, trust.
import { html, useState, useEffect, useLayoutEffect, useMemo, useRef } from "./vendor/htm-preact.js";
import {
  Copy, Empty, Fact, Problem, Ticked, Waiting, ask, cachedShare, change, cost, download, embedded, NeedsServer, many, posted, named, number, placeOf, share, short,
  toUnits, tryPolicy, unpriced, useAnswer, useNewest, useStateAt, visible, withNumbers,
} from "./common.js";
import { Film, highest } from "./film.js";
import { Spans } from "./request.js";
import { Prose, Rows } from "./text.js";

// A button with the number of an event; it leads to the log.
const EventLink = ({ id, film, show }) => {
  const event = placeOf(film, id);
  return event ? html`<button class="link" onClick=${() => show("events", event.index)}>${event.index + 1}</button> ` : html`<span class="mono">${id.slice(0, 8)} </span>`;
};

export function LeftOut({ session, step, film, show }) {
  const { data, error } = useAnswer("request", { session, step });
  const [forced, setForced] = useState(null);
  const result = useRef(null), asked = useRef(null);
  const newest = useNewest();
  const close = () => { setForced(null); if (asked.current && asked.current.isConnected) asked.current.focus(); };
  useEffect(() => { newest(); setForced(null); }, [session, step]);
  useEffect(() => { if (forced && result.current) { result.current.scrollIntoView({ block: "nearest" }); result.current.focus(); } }, [forced]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  // A reason is one, whatever numbers it names.
  const groups = new Map();
  for (const row of data.left_out) {
    const kind = `${row.pass}\n${row.reason.replace(/\d[\d,.]*/g, "#")}`, group = groups.get(kind) || { pass: row.pass, reasons: new Set(), rows: [] };
    group.rows.push(row);
    group.reasons.add(row.reason);
    groups.set(kind, group);
  }
  const didSomething = (p) => p.dropped || p.changed || p.added || p.moved;
  const acted = data.passes.filter(didSomething), idle = data.passes.filter((p) => !didSomething(p));
  const total = (rows, name) => rows.reduce((n, row) => n + row[name], 0);
  const force = (row, button) => {
    asked.current = button;
    const name = named(data.origins[row.origin], film), isWanted = newest();
    ask("force", { session, step, events: data.origins[row.origin].name }).then((answer) => isWanted() && setForced({ answer, name }), (e) => isWanted() && setForced({ error: e.message }));
  };
  return html`<div data-testid="left-out">
    ${forced && (forced.error ? html`<${Problem} text=${forced.error} />` : html`<section class="card" ref=${result} tabindex="-1" onKeyDown=${(e) => e.key === "Escape" && close()}><div class="bar"><b>Compiled again with ${forced.name}</b><span class="grow"></span><button onClick=${close}>close</button></div>
      <${Compared} a=${forced.answer} /><div class="bar"><code class="text">${forced.answer.code}</code><${Copy} text=${forced.answer.code} name="copy as code" /></div>
      <details><summary>the request</summary><${Against} now=${data} then=${forced.answer.view} film=${film} show=${show} /></details></section>`)}
    ${groups.size === 0 && (film.session.imported ? html`<${Empty} title="The request is shown as it was recorded.">What its own program had left out before it asked is in Events.<//>` : html`<${Empty} title="Nothing was left out.">The request holds all that the agent may see.<//>`)}
    ${groups.size > 0 && html`<p>${many(data.left_out.length, "part")} of the log ${data.left_out.length === 1 ? "was" : "were"} left out or shortened: ${number(total(data.left_out, "tokens"))} tokens, ${cost(total(data.left_out, "price"), data.left_out[0].money)} to put back.</p>`}
    ${[...groups.values()].sort((x, y) => total(y.rows, "tokens") - total(x.rows, "tokens")).map(({ pass, reasons, rows }, i) => html`<details open=${i === 0}><summary><b>${pass}</b> ${reasons.size > 1 ? [...reasons][0].replace(/\d[\d,.]*/g, "…") : [...reasons][0]} <span class="dim">· ${rows.length} × · ${number(total(rows, "tokens"))} tokens · ${cost(total(rows, "price"), rows[0].money)} to put back</span></summary>
      <${Rows} list=${rows} height=${34} label=${`left out by ${pass}`}>${(row) => html`<span class="n">${number(row.tokens)} tok</span><span class="n">${cost(row.price, row.money)}</span><span class="from">${named(data.origins[row.origin], film)}</span><span class="text gone" title=${short(row.text, 2000)}><del>${short(row.text.replace(/\s+/g, " "), 240)}</del></span>
        <span>${data.origins[row.origin].kind === "event" && !embedded && html`<button onClick=${(e) => force(row, e.currentTarget)}>force in</button>`}</span>`}<//></details>`)}
    ${acted.length > 0 && html`<h2>What was done to the request, in order</h2><table class="stack passes"><thead><tr><th>pass</th><th class="n">dropped</th><th class="n">changed</th><th class="n">added</th><th class="n">moved</th><th class="n">tokens</th></tr></thead>
      <tbody>${acted.map((p) => html`<tr><td>${p.name}</td>${["dropped", "changed", "added", "moved"].map((what) => html`<td class="n" data-what=${what}>${p[what] || ""}</td>`)}<td class="n">${p.before ? `${number(p.before)} → ${number(p.after)}` : p.remark}</td></tr>`)}</tbody></table>`}
    ${idle.length > 0 && !film.session.imported && html`<details><summary class="dim">${many(idle.length, "pass", "passes")} changed nothing</summary><p class="dim">${idle.map((p) => p.name).join(", ")}</p></details>`}</div>`;
}

const Compared = ({ a }) => html`<div class="facts-row" data-testid="compared">
  <${Fact} name="tokens" value=${number(a.tokens)} was=${`${change(a.tokens, a.tokens_now)}, was ${number(a.tokens_now)}`} better=${a.tokens === a.tokens_now ? undefined : a.tokens < a.tokens_now} />
  <${Fact} name="money" value=${cost(a.cost, a.money)} was=${`was ${cost(a.cost_now, a.money_now)}`} better=${a.cost === a.cost_now || a.money !== a.money_now ? undefined : a.cost < a.cost_now} />
  ${a.prefix !== undefined && html`<${Fact} name="stable prefix" value=${number(a.prefix)} was=${`was ${number(a.prefix_now)}`} better=${a.prefix === a.prefix_now ? undefined : a.prefix > a.prefix_now} />
  <${Fact} name="cached" value=${number(a.cached)} was=${`was ${number(a.cached_now)}`} better=${a.cached === a.cached_now ? undefined : a.cached > a.cached_now} />`}</div>`;

// A request that was compiled otherwise: its rows, with those marked that were not sent, and those that are gone.
function Against({ now, then, film, show }) {
  const [picked, pick] = useState(null);
  const key = (row) => `${row.kind}\n${row.text}`;
  const sent = useMemo(() => new Set(now.rows.map(key)), [now]);
  const gone = useMemo(() => { const kept = new Set(then.rows.map(key)); return now.rows.filter((row) => !kept.has(key(row))); }, [now, then]);
  const fresh = useMemo(() => (row) => !sent.has(key(row)), [sent]);
  return html`${gone.length > 0 && html`<details><summary>${many(gone.length, "row")} of the request that was sent ${gone.length === 1 ? "is" : "are"} gone or changed</summary>${gone.slice(0, 100).map((row) => html`<div class="row" style=${`border-color: var(--${row.source})`}><div class="what"><b>${row.role} ${row.kind}</b><span>${number(row.tokens)} tok</span><span>${named(now.origins[row.origin], film)}</span></div><pre class="text"><del>${short(row.text, 400)}</del></pre></div>`)}</details>`}
    <${Spans} view=${then} raw=${false} picked=${picked} pick=${pick} film=${film} show=${show} fresh=${fresh} />`;
}

export function Cache({ session, step, film }) {
  const { data, error } = useAnswer("cache", { session, step });
  const request = useAnswer("request", { session, step });
  if (error || request.error) return html`<${Problem} text=${error || request.error} />`;
  if (!data || !request.data || request.data.number !== data.number) return html`<${Waiting} />`;
  const text = request.data.text, ends = toUnits(text, data.ages.map(([end]) => end));
  const parts = data.ages.map(([, age], i) => [text.slice(i ? ends[i - 1] : 0, ends[i]), age]);
  if (ends.length && ends[ends.length - 1] < text.length) parts.push([text.slice(ends[ends.length - 1]), 0]);
  return html`<div data-testid="cache"><div class="facts-row"><${Fact} name="cached" value=${share(data.cached, data.total)} was=${`${number(data.cached)} of ${number(data.total)} tokens${data.exact ? "" : ", predicted"}`} />
      ${data.possible > data.cached && html`<${Fact} name="possible" value=${share(data.possible, data.total)} was=${`${number(data.possible)} of ${number(data.total)} tokens, if nothing had changed`} />`}
      ${data.reported && html`<${Fact} name="the provider reported" value=${share(data.reported.cached || 0, data.reported.prompt)} was=${`${number(data.reported.cached || 0)} of ${number(data.reported.prompt)} tokens, as it counts`} />`}
      <${Fact} name="the request" value=${cost(data.cost, data.money)} /><${Fact} name="saved by the cache" value=${cost(data.saved, data.money)} />
      ${data.lost > 0 && html`<${Fact} name="lost to a changed prefix" value=${html`<span class="red">${cost(data.lost, data.money)}</span>`} was="in this call" better=${false} />`}</div>
    ${data.first ? html`<p class="dim">The first request of this agent: there is none before it to compare with.</p>` : html`<h2>First difference: character ${number(data.at + 1)}, byte ${number(data.byte + 1)}</h2>
      ${data.mark_moved && html`<p class="dim" data-testid="mark-moved">A mark before it moved (<code>cache_control</code>, <code>prompt_cache_breakpoint</code>): it says up to where the provider is to keep the request, and is not part of what is kept.</p>`}
      ${data.broken ? html`<p class="red">${withNumbers(data.broken, film)}${data.author && html` <span class="dim">· written by ${withNumbers(data.author, film)}</span>`}</p>` : html`<p class="green">The request before stands whole at the start of this one: only new turns follow.</p>`}
      <div class="pairs">${[["before", data.before], ["now", data.after]].map(([name, piece], i) => { const [cut] = toUnits(piece, [data.lead[i]]); return html`<div><b class="dim">${name}</b><pre class="text cliffs">${piece.slice(0, cut)}<span class="cliff" role="separator" aria-label="first difference"></span>${piece.slice(cut) || html`<i class="dim">the request ends here</i>`}</pre></div>`; })}</div>`}
    <h2>How long each part stayed unchanged</h2>
    <div class="legend dim"><span>new</span><span class="scale" aria-hidden="true">${[0, 1, 2, 4, 6, 8, 10, 12].map((age) => html`<i style=${heat(age)}></i>`)}</span><span>in 12 requests before, or more</span></div>
    <div class="heat text" tabindex="0" role="region" aria-label="the request, coloured by age">${parts.map(([t, age]) => html`<span title=${age ? `unchanged in ${many(age, "request")} before` : "new, or changed"} style=${heat(age)}>${short(t, 600)}</span>`)}</div></div>`;
}
const heat = (age) => `background: hsl(${28 + Math.min(12, age) * 15} 75% 55% / ${age ? 0.28 : 0.36})`;

const POLICIES = ["C.default()", "C.window(4)", "C.auto()", "C.auto().compact()", "C.none()"];
const NOTHING = { policy: "", window: "", budget: "", model: "" };

export function WhatIf({ session, step, film, show }) {
  const [form, setForm] = useState(() => ({ ...NOTHING, policy: tryPolicy.get() }));
  useEffect(() => tryPolicy.set(""), []);
  const [late, setLate] = useState(form);
  const [whole, setWhole] = useState(null);
  const [said, setSaid] = useState(null);
  useEffect(() => { const t = setTimeout(() => setLate(form), 150); return () => clearTimeout(t); }, [form]);
  const { data, error, busy } = useAnswer("what-if", { session, step, ...late }, !embedded);
  const request = useAnswer("request", { session, step });
  const set = (name, value) => { setForm((old) => ({ ...old, [name]: value })); setWhole(null); setSaid(null); };
  // The answer to a form that was changed meanwhile is not shown.
  const latest = useRef(form);
  latest.current = form;
  const all = () => { setWhole({}); ask("compare", { session, ...form }).then((answer) => latest.current === form && setWhole({ answer }), (e) => latest.current === form && setWhole({ error: e.message })); };
  const save = () => ask("test", { session, step, ...form }).then(
    ({ text }) => { const name = `test_step_${step}.py`; download(name, text); if (latest.current === form) setSaid({ text, name }); }, (e) => latest.current === form && setSaid({ error: e.message }));
  const isChanged = Object.values(form).some(Boolean);
  const turns = new Set(film.frames.slice(0, step).map((f) => f.invocation)).size, largest = Math.max(2000, 1.5 * highest(film, null));
  const round = 10 ** Math.floor(Math.log10(largest / 50));
  if (embedded) return html`<${NeedsServer} film=${film} name="whatif" title="An exported file cannot compile.">It holds the requests that were sent. What another policy, budget or model would have made of them, the compiler says.<//>`;
  const models = [...new Set(film.frames.map((f) => f.model).filter(Boolean)), "claude-opus-5", "claude-sonnet-5", "gpt-5.6", "gpt-5", "gemini-flash-latest"];
  return html`<div data-testid="whatif"><div class="card"><div class="controls">
      <label>policy<input type="text" list="policies" placeholder="C.auto().compact()" value=${form.policy} onInput=${(e) => set("policy", e.target.value)} /></label>
      <label>only the last turns<span class="bar"><input type="range" aria-label="only the last turns, slider" min="0" max=${Math.max(2, turns)} value=${form.window || 0} onInput=${(e) => set("window", e.target.value === "0" ? "" : e.target.value)} /><input type="number" aria-label="only the last turns" min="1" value=${form.window} placeholder="all" onInput=${(e) => set("window", e.target.value)} /></span></label>
      <label>budget in tokens<span class="bar"><input type="range" aria-label="budget in tokens, slider" min="0" max=${Math.ceil(largest / round) * round} step=${round} value=${form.budget || 0} onInput=${(e) => set("budget", e.target.value === "0" ? "" : e.target.value)} /><input type="number" aria-label="budget in tokens" min="1" step="1" value=${form.budget} placeholder="none" onInput=${(e) => set("budget", e.target.value)} /></span></label>
      <label>model<input type="text" list="models" placeholder=${film.frames[step - 1] ? film.frames[step - 1].model : ""} value=${form.model} onInput=${(e) => set("model", e.target.value)} /></label></div>
      <div class="bar chips" role="group" aria-label="policies to try"><span class="dim">try</span>${POLICIES.map((p) => html`<button class=${`chip ${form.policy === p ? "on" : ""}`} aria-pressed=${form.policy === p} onClick=${() => set("policy", form.policy === p ? "" : p)}>${p}</button>`)}<button class="chip" onClick=${() => { setForm(NOTHING); setWhole(null); setSaid(null); }}>reset</button></div>
      <datalist id="policies">${POLICIES.map((p) => html`<option value=${p}></option>`)}</datalist><datalist id="models">${models.map((m) => html`<option value=${m}></option>`)}</datalist></div>
    <${Problem} text=${error} />
    ${!isChanged && html`<p class="dim">Nothing is changed yet. Try a policy, a window, a budget or a model: this call is compiled again with it, as you type.${film.session.imported && " Its system text, its tools and its options stay as they were recorded."}</p>`}
    ${data && !error && isChanged && html`<div aria-busy=${busy} aria-live="polite"><${Compared} a=${data} />${data.remark && html`<p class="note">${data.remark}</p>`}</div><div class="bar"><code class="text">${data.code}</code><${Copy} text=${data.code} name="copy as code" />${!film.session.imported && html`<button onClick=${save}>save as test</button>`}<button class="on" onClick=${all}>the whole session</button></div>`}
    ${data && !error && html`
      ${said && (said.error ? html`<${Problem} text=${said.error} />` : html`<details class="card" open><summary>saved as <code>${said.name}</code></summary><pre class="text">${said.text}</pre></details>`)}
      ${whole && whole.error && html`<${Problem} text=${whole.error} />`}
      ${whole && !whole.error && !whole.answer && html`<${Waiting} />`}
      ${whole && whole.answer && html`<${Both} a=${whole.answer} step=${step} />`}
      ${request.data && request.data.number === data.view.number && html`<h2>${isChanged ? `Call ${step}, as it would be` : `Call ${step}, as it was sent`}</h2><${Against} now=${request.data} then=${data.view} film=${film} show=${show} />`}`}</div>`;
}

function Both({ a, step, names, go }) {
  const n = a.now.session, t = a.then.session, most = Math.max(highest(a.now), highest(a.then));
  const box = useRef(null), [at, setAt] = useState(step);
  useEffect(() => setAt(step), [step]);
  // It appears below what asked for it.
  useEffect(() => box.current.focus(), [a]);
  const strip = (film, label) => html`<${Film} film=${film} now=${Math.min(at, film.frames.length)} go=${setAt} most=${most} label=${label} />`;
  return html`<section class="card" data-testid="both" tabindex="-1" ref=${box}><${Difference} d=${a.difference} parted=${a.parted} names=${names || ["as it was", "as it would be"]} go=${go} />${!names && html`<div class="facts-row"><${Fact} name="tokens, whole session" value=${number(t.tokens)} was=${`${change(t.tokens, n.tokens)}, was ${number(n.tokens)}`} better=${t.tokens === n.tokens ? undefined : t.tokens < n.tokens} />
      <${Fact} name="money, whole session" value=${cost(t.cost, t.money)} was=${[`${t.money === n.money ? `${share(t.cost, n.cost)} of` : "was"} ${cost(n.cost, n.money)}`, unpriced(t, t.steps)].filter(Boolean).join("; ")} better=${t.cost === n.cost || t.money !== n.money ? undefined : t.cost < n.cost} />
      <${Fact} name="cached" value=${cachedShare(t)} was=${`was ${cachedShare(n)}`} better=${undefined} /></div>`}
    <h2>A: ${names ? names[0] : "as it was"}</h2>${strip(a.now, "as it was")}<h2>B: ${names ? names[1] : "as it would be"}</h2>${strip(a.then, "as it would be")}</section>`;
}

// Where two sides part, what each kept in view of what its answers used, and the answers that differ.
function Difference({ d, parted, names, go }) {
  const [x, y] = d.sides, part = d.parting, kept = (e) => (e.used ? `${share(e.present, e.used)}${e.recallable ? `, and ${share(e.recallable, e.used)} one recall away` : ""}` : "nothing was used");
  const differ = d.answers.filter((one) => !one.same);
  return html`<div data-testid="difference">
    ${parted && html`<p class="note warning" data-testid="parted"><b>${parted.agent}</b> calls <code>${parted.call}(${short(parted.args, 200)})</code>, which was not recorded. The run ended here.${parted.recorded.length > 0 && html` <span class="dim">Recorded: ${parted.recorded.map((args) => short(args, 80)).join(" · ")}</span>`}</p>`}
    <p>${part ? html`They part at ${go ? html`<button class="link" onClick=${() => go(part.step)}>call ${part.step}</button>` : `call ${part.step}`}, block ${part.block} (${part.kind}):` : "Every request says the same."}</p>
    ${part && html`<div class="pairs">${part.texts.map((text, i) => html`<div><b class="dim">${names[i]}</b><pre class="text clip card" tabindex="0">${text || "nothing"}</pre></div>`)}</div>`}
    <table class="bill"><thead><tr><td></td><th>${names[0]}</th><th>${names[1]}</th></tr></thead><tbody>
      ${[["model", (s) => s.models.join(", ")], ["calls", (s) => number(s.steps)], ["tokens", (s) => number(s.tokens)], ["cached", cachedShare], ["cost", (s) => [cost(s.cost, s.money), unpriced(s, s.steps)].filter(Boolean).join("; ")], ["took", (s) => (s.seconds === null ? "–" : `${s.seconds.toFixed(1)} s`)], ["in view of what answers used", (s) => kept(s.evidence)], ["errors", (s) => number(s.errors)]].map(([name, of]) => html`<tr><th>${name}</th><td>${of(x)}</td><td>${of(y)}</td></tr>`)}</tbody></table>
    ${d.answers.length > 0 && html`<details open=${differ.length < 6}><summary>${differ.length ? `${number(differ.length)} of ${many(d.answers.length, "answer")} differ` : `All ${many(d.answers.length, "answer")} are the same`}</summary>
      ${differ.map((one) => html`<div class="pairs">${one.rows.map((row) => html`<div class="bubble wide">${row ? html`<span class="dim">${one.number}. ${row.agent}</span>${row.text && html`<${Prose} text=${row.text} />`}${row.calls.map((c) => html`<pre class="text calls">→ ${c.name} ${c.text}</pre>`)}${row.error && html`<div class="red">${row.error}</div>`}` : html`<span class="dim">no answer</span>`}</div>`)}</div>`)}</details>`}</div>`;
}

// This session next to another one; or run again with something changed, on the recorded results of its tools.
export function Compare({ session, film, step, go }) {
  const { data, error } = useAnswer("sessions", {}, !embedded);
  const [other, setOther] = useState("");
  const [form, setForm] = useState({ agent: film.session.agents[0] || "", instruction: "", policy: "", model: "" });
  const [result, setResult] = useState(null);
  const newest = useNewest();
  if (embedded) return html`<${NeedsServer} film=${film} name="compare" title="An exported file holds one session.">Two sessions stand side by side on the page of the program.<//>`;
  const show = (work, names) => { const isWanted = newest(); setResult({}); work.then((answer) => isWanted() && setResult({ answer, names }), (e) => isWanted() && setResult({ error: e.message })); };
  const others = (data || []).filter((s) => s.key !== session), set = (name) => (e) => setForm({ ...form, [name]: e.target.value });
  const compare = (e) => { e.preventDefault(); if (other) show(ask("compare", { session, other }), [film.session.id, others.find((s) => s.key === other).id]); };
  const rerun = (e) => { e.preventDefault(); show(posted(`inspect/api/rerun?session=${encodeURIComponent(session)}`, form).then(visible), ["as it was", "run again"]); };
  return html`<div data-testid="compare"><${Problem} text=${error} /><div class="pairs">
    <form class="card" onSubmit=${compare}><h2>With another session</h2>${data && !others.length ? html`<p>This is the only session here.</p>` : html`<div class="controls"><label>session<select value=${other} required onChange=${(e) => setOther(e.target.value)}><option value="">choose one</option>${others.map((s) => html`<option value=${s.key}>${s.id}${s.first ? `: ${short(s.first, 60)}` : ""}</option>`)}</select></label><button disabled=${!other}>compare</button></div>`}
      <p class="dim">Policies and models are compared in What if.</p></form>
    ${film.can_chat ? html`<form class="card" onSubmit=${rerun}><h2>With itself, run again</h2><p class="dim">The model is asked; tools do not run, they answer what was recorded, up to the first call that was not. Nothing is stored.</p><div class="controls">
      <label>instruction of <select aria-label="agent whose instruction is changed" value=${form.agent} onChange=${set("agent")}>${film.session.agents.map((one) => html`<option value=${one}>${one}</option>`)}</select><textarea rows="3" aria-label="new instruction" placeholder="as it is" value=${form.instruction} onInput=${set("instruction")}></textarea></label>
      <label>policy<input type="text" placeholder="as it is" value=${form.policy} onInput=${set("policy")} /></label><label>model<input type="text" placeholder="as it is" value=${form.model} onInput=${set("model")} /></label>
      <button class="on" disabled=${!(form.instruction || form.policy || form.model) || (result && !result.answer && !result.error)}>run it again</button></div></form>` : html`<div class="card"><h2>With itself, run again</h2><p class="dim">To run a session again, serve its agent: <code>weft serve pkg.module:agent</code></p></div>`}</div>
    ${result && result.error && html`<${Problem} text=${result.error} />`}${result && !result.error && !result.answer && html`<${Waiting} />`}
    ${result && result.answer && html`<${Both} a=${result.answer} step=${step} names=${result.names} go=${go} />`}</div>`;
}

export function Bisect({ session, step, go, film }) {
  const [text, setText] = useState(() => getSelection().toString().trim().slice(0, 200));
  const [answer, setAnswer] = useState(null);
  const [busy, setBusy] = useState(false);
  const run = (e) => { e.preventDefault(); setBusy(true); ask("bisect", { session, text }).then((data) => setAnswer({ data }), (error) => setAnswer({ error: error.message })).finally(() => setBusy(false)); };
  const data = answer && answer.data, byAgent = {};
  for (const s of data ? data.steps : []) { const row = (byAgent[s.agent] = byAgent[s.agent] || [0, 0]); row[0] += s.in_view ? 1 : 0; row[1] += 1; }
  if (embedded) return html`<${NeedsServer} film=${film} name="bisect" title="An exported file cannot search all requests.">At which call words left the requests, and which pass took them out, the compiler says. In one request, / finds them.<//>`;
  return html`<div data-testid="bisect"><form class="controls" onSubmit=${run}><label>when did this vanish?<input type="text" required value=${text} onInput=${(e) => setText(e.target.value)} placeholder="a sentence, a name, a number" /></label><button disabled=${busy}>find</button></form>
    ${!answer && html`<p class="dim">Write some words that a model should have seen, or select them in a request before you come here. The answer is the call at which they left the request, and the pass that took them out.</p>`}
    <${Problem} text=${answer && answer.error} />
    ${data && html`<div aria-live="polite"><p>${data.loosely ? "It stands there with the signs of Markdown in it. " : ""}${data.born === null ? "No event of the log holds it." : `It entered the log with event ${data.born + 1}.`} It is in ${data.steps.filter((s) => s.in_view).length} of ${many(data.steps.length, "request")}${Object.keys(byAgent).length > 1 ? html`: ${Object.entries(byAgent).map(([agent, [held, all]], i) => `${i ? ", " : ""}${agent} ${held} of ${all}`)}` : ""}.</p>
      <div class="steps" role="group" aria-label="calls; those that hold the text are filled">${data.steps.map((s) => html`<button class=${s.in_view ? "on" : ""} aria-current=${s.number === step} onClick=${() => go(s.number)} title=${`call ${s.number}, ${s.agent}: ${s.in_view ? "in view" : "not in view"}`} aria-label=${`call ${s.number} of ${s.agent}, ${s.in_view ? "in view" : "not in view"}`}>${s.number}</button>`)}</div>
      ${data.vanished.length ? data.vanished.slice(0, 20).map((gone) => html`<h2>It vanished from the requests of ${gone.agent} at call ${gone.number}</h2>${gone.because.map((b) => html`<div class="chain"><b>${b.pass}</b> <span class="dim">${b.reason} · ${withNumbers(b.event, film)}</span><pre class="text"><del>${short(b.text)}</del></pre></div>`)}
        ${gone.because.length === 0 && html`<p class="dim">No pass took it out: it was part of the agent's instruction or tools, or of the state that they show.</p>`}`)
      : data.steps.some((s) => s.in_view) ? html`<p class="green">It never vanished.</p>` : html`<p class="red">No request ever held it.</p>`}</div>`}</div>`;
}

export function DeadWeight({ session, film, version }) {
  const { data, error } = useAnswer("dead-weight", { session, version: version || "" });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const dead = data.tools.filter((t) => !t.called);
  return html`<div data-testid="weight"><p>${data.tools.length === 0 ? (film.session.imported ? "The recording does not hold the tools, so nobody can say which were never called." : "The agents have no tools.") : dead.length === 0 ? html`<span class="green">Every tool was called.</span>` : html`<b>${dead.length} of ${many(data.tools.length, "tool")}</b> ${dead.length === 1 ? "was" : "were"} never called. ${dead.length === 1 ? "It" : "They"} cost <b class="red">${cost(dead.reduce((n, t) => n + t.cost, 0), dead[0].money)}</b> in this session.`}</p>
    ${data.tools.length > 0 && html`<table><thead><tr><th>agent</th><th>tool</th><th>called</th><th class="n">tokens each time</th><th class="n">requests</th><th class="n">paid</th></tr></thead>
      <tbody>${data.tools.map((t) => html`<tr class=${t.called ? "dim" : ""}><td>${t.agent}</td><td class="mono">${t.tool}</td><td class=${t.called ? "" : "red"}>${t.called ? "yes" : "never"}</td><td class="n">${number(t.tokens)}</td><td class="n">${number(t.requests)}</td><td class="n">${cost(t.cost, t.money)}</td></tr>`)}</tbody></table>`}
    <h2>State that no request shows</h2>${data.state.length ? html`<table><thead><tr><th>key</th><th class="n">characters</th></tr></thead><tbody>${data.state.map((s) => html`<tr><td class="mono">${s.key}</td><td class="n">${number(s.size)}</td></tr>`)}</tbody></table>` : html`<p class="dim">All state that was written was shown to a model, or none was written.</p>`}</div>`;
}

export function Graph({ session, step, film, version }) {
  const { data, error } = useAnswer("picture", { session, version: version || "" });
  const box = useRef(null), frame = film.frames[step - 1], state = useStateAt(film, step);
  // In a layout effect: the drawing and the words above it are of the same step.
  useLayoutEffect(() => {
    if (data && box.current) box.current.replaceChildren(picture(data.svg, frame, state));
    const svg = box.current && box.current.firstChild;
    if (svg) fitted(svg);
  }, [data, frame, state]);
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  return html`<div data-testid="graph"><p>${frame ? html`At call ${step} <b>${frame.agent}</b> speaks` : "Nobody has spoken yet"}${frame && frame.calls.length > 0 ? ` and calls ${frame.calls.map((c) => c.name).join(", ")}` : ""}.${Object.entries(data.steps).map(([a, n]) => html`<span class="dim"> · ${a} ${n}×</span>`)}</p>
    <div class="columns"><div class="graph" ref=${box} tabindex="0" role="region" aria-label="graph of the agents"></div><aside class="side" aria-label="checks and state">${!film.session.imported && html`<div><b>Checks</b>${data.checks.length ? data.checks.map((c) => html`<div class="chain"><b class=${c.severity === "error" ? "red" : ""}>${c.code}</b> ${c.message}<div class="mono dim">${c.where}</div><div class="dim">${c.hint}</div></div>`) : html`<p class="green">Nothing to say.</p>`}</div>`}
      <div><b>State before call ${step}</b>${Object.keys(state).length ? html`<table class="facts"><tbody>${Object.entries(state).map(([k, v]) => html`<tr><th class="mono">${k}</th><td class="mono">${short(v, 200)}</td></tr>`)}</tbody></table>` : html`<p class="dim">Empty.</p>`}</div></aside></div></div>`;
}

// The drawing with the agent that speaks, the values that went along the edges, and those of the keys.
function picture(text, frame, state) {
  const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement, SVG = "http://www.w3.org/2000/svg";
  svg.setAttribute("aria-label", "graph of the agents");
  for (const one of svg.querySelectorAll("script, foreignObject, rect.paper")) one.remove();
  for (const title of svg.querySelectorAll("text.title")) if (frame && title.textContent === frame.agent && title.previousElementSibling) title.previousElementSibling.classList.add("now");
  const tracks = [...svg.querySelectorAll("g.track")], taken = [];
  const across = tracks.map((track) => Number((/^M(-?[\d.]+)/.exec(track.querySelector("path").getAttribute("d")) || [0, 0])[1]));
  const edges = { left: Math.min(...across) - 6, right: Math.max(...across) + 6 };
  for (const track of tracks) {
    const key = track.querySelector("title").textContent.split(": ")[0], path = track.querySelector("path").getAttribute("d");
    const [, x, from, to] = /^M(-?[\d.]+) (-?[\d.]+)V(-?[\d.]+)/.exec(path) || [];
    if (x === undefined || !(key in state)) continue;
    const label = document.createElementNS(SVG, "text"), left = Number(x) < 60;
    let y = (Number(from) + Number(to)) / 2 + 4;
    while (taken.some(([side, at]) => side === left && Math.abs(at - y) < 15)) y -= 15;
    taken.push([left, y]);
    for (const [name, value] of [["class", "halo value"], ["x", left ? edges.left : edges.right], ["y", y], ["text-anchor", left ? "end" : "start"]]) label.setAttribute(name, value);
    label.textContent = short(`${key} = ${state[key]}`, 28);
    const whole = document.createElementNS(SVG, "title");
    whole.textContent = `${key} = ${state[key]}`;
    label.append(whole);
    track.append(label);
  }
  return svg;
}

// Values may stand outside the drawing: its frame grows to hold them, and holds nothing else.
function fitted(svg) {
  const box = svg.getBBox(), left = box.x - 8, wide = box.width + 16;
  svg.setAttribute("viewBox", `${left} 0 ${wide} ${svg.getAttribute("height")}`);
  svg.setAttribute("width", wide);
}

export function Trust({ session, film, show, version }) {
  const { data, error } = useAnswer("trust", { session, version: version || "" });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const unit = (name) => html`<span class="unit">${name} </span>`;
  const links = (ids) => ids.map((id) => html`<${EventLink} id=${id} film=${film} show=${show} />`);
  return html`<div data-testid="trust"><h2>Fenced, labelled, redacted</h2><p class="dim">Which rules of the policies acted, how often, and on which events. What they hid stays hidden here too.${data.hidden.length > 0 && ` The agents hide: ${data.hidden.join(", ")}.`}</p>${data.guards.length ? html`<table class="stack"><thead><tr><th>pass</th><th>rule</th><th class="n">times</th><th>events</th></tr></thead><tbody>${data.guards.map((g) => html`<tr><td class="mono">${g.pass}</td><td>${g.reason}</td><td class="n">${number(g.steps)}<span class="unit"> ×</span></td><td class="whole">${unit("events")}${links(g.events)}</td></tr>`)}</tbody></table>` : html`<p class="dim">No policy here fences, labels or redacts.</p>`}
    <h2>Words of results in later calls</h2><p class="dim">What a tool brought in is not to be trusted. These calls repeat words of it in their arguments.</p>${data.flows.length ? html`<table class="stack"><thead><tr><th>agent</th><th>call</th><th>in event</th><th>words</th><th>from events</th></tr></thead><tbody>${data.flows.map((f) => html`<tr><td>${f.agent}</td><td class="mono">${f.call}</td><td>${unit("in event")}${links([f.event])}</td><td class="mono whole">${f.words.join("  ")}</td><td>${unit("from events")}${links(f.from)}</td></tr>`)}</tbody></table>` : html`<p class="dim">No call uses words that came from a result.</p>`}
    <h2>Calls after untrusted text</h2><p class="dim">The answer that made such a call was written with text in view that no one vouches for: a tool's result, for example. Weft notes that with each answer of its own agents; of another program's agent all that it was sent counts.</p>${data.calls.length ? html`<table class="stack" data-testid="labelled"><thead><tr><th>agent</th><th>call</th><th>in event</th><th>how the text got there</th><th>what became of it</th></tr></thead><tbody>${data.calls.map((c) => html`<tr><td>${c.agent}</td><td class="mono">${c.call}</td><td>${unit("in event")}${links([c.event])}</td><td class="mono whole">${c.paths.join("; ")}</td><td>${c.outcome}${c.why && `: ${c.why}`}</td></tr>`)}</tbody></table>` : html`<p class="dim">Nothing untrusted had influence on a call.</p>`}</div>`;
}

// What was expected, what was billed, and why the two differ.
const CAUSES = {
  cache: "cache lost", estimate: "estimate off", "provider tools": "the provider's own tools", model: "another model answered", tier: "another price step", writing: "kept otherwise",
};
const signed = (n) => `${n < 0 ? "−" : ""}${number(Math.abs(n))}`, sumOf = (list, name) => list.reduce((n, one) => n + one[name], 0);
const causeName = (c) => (c.kind === "cache" && c.cost < 0 ? "more was cached" : CAUSES[c.kind]);
export function Receipt({ session, step, go, version }) {
  const { data, error } = useAnswer("receipt", { session, version: version || "" });
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<${Waiting} />`;
  const more = (value, money) => (Math.abs(value) < 1e-9 ? "" : `${value > 0 ? "+" : "−"}${cost(Math.abs(value), money)}`);
  const known = (load, name) => (load ? number(load[name]) : "?");
  const isBilled = data.calls.some((line) => line.billed);
  const labelled = (name, value) => html`<td class="n"><span class="unit">${name} </span>${value}</td>`;
  return html`<div data-testid="receipt">${!isBilled ? html`<p>There is no bill: the provider reported no usage. What Weft counts of the requests is expected to cost <b>${cost(sumOf(data.calls.filter((line) => line.expected && line.money === data.money), "expected_cost"), data.money)}</b>, without the answers.</p>` : html`<div class="facts-row"><${Fact} name="requests, expected" value=${cost(data.expected, data.money)} />
      <${Fact} name="requests, billed" value=${cost(data.billed, data.money)} was=${more(data.difference, data.money) || "as expected"} better=${Math.abs(data.difference) < 1e-9 ? undefined : data.difference < 0} />
      <${Fact} name="answers" value=${cost(data.answers, data.money)} />${data.unexpected > 0 && html`<${Fact} name="without an expectation" value=${cost(data.unexpected, data.money)} />`}
      ${data.recalls.calls > 0 && html`<${Fact} name="recalls" value=${cost(data.recalls.cost, data.money)} was=${many(data.recalls.calls, "call")} />`}
      ${data.changed_prefix.calls > 0 && html`<${Fact} name="read again, as expected" value=${cost(data.changed_prefix.cost, data.money)} was=${`${number(data.changed_prefix.tokens)} tokens in ${many(data.changed_prefix.calls, "call")}`} />`}
      <${Fact} name="total" value=${cost(data.total, data.money)} /></div>`}
    ${data.remarks.filter((remark) => isBilled || !remark.includes("without a bill")).map((remark) => html`<p class="note"><${Ticked} text=${remark} /></p>`)}
    ${data.causes.length > 0 && html`<h2>Why the bill differs</h2><table class="stack"><thead><tr><th>cause</th><th class="n">calls</th><th class="n">tokens</th><th class="n">cost</th><th>why</th></tr></thead>
      <tbody>${data.causes.map((c) => html`<tr><td>${causeName(c)}</td><td class="n">${number(c.calls)}</td><td class="n">${signed(c.tokens)}</td><td class="n">${more(c.cost, data.money)}</td><td class="whole">${c.words}</td></tr>`)}</tbody></table>`}
    <h2>Calls</h2><table class="stack"><thead><tr><th class="n">call</th><th>agent</th><th class="n">expected</th><th class="n">of it cached</th>${isBilled ? html`<th class="n">billed</th><th class="n">of it cached</th><th class="n">answer</th><th class="n">cost</th><th class="n">difference</th>` : html`<th class="n">cost</th>`}<th>why</th></tr></thead>
      <tbody>${data.calls.map((line) => html`<tr class=${line.number === step ? "on" : ""}><td class="n">${line.number ? html`<button class="link" onClick=${() => go(line.number)}>${line.number}</button>` : "–"}</td><td>${line.agent}</td>
        ${labelled("expected", known(line.expected, "total"))}${labelled("cached", known(line.expected, "cached"))}${isBilled ? html`${labelled("billed", known(line.billed, "total"))}${labelled("cached", known(line.billed, "cached"))}${labelled("answer", known(line.billed, "answer"))}
        <td class="n">${line.billed ? cost(line.billed_cost + line.answer_cost, line.money) : "?"}</td><td class="n">${line.expected && line.billed ? more(line.difference, line.money) : ""}</td>` : html`<td class="n">${line.expected ? cost(line.expected_cost, line.money) : "?"}</td>`}
        <td class="whole">${[line.is_recall && "made to read on after a recall", isBilled && line.problem, (line.lost > 0 || !line.expected) && line.blame, ...line.causes.filter((c) => Math.abs(c.cost) >= 0.01 * Math.max(line.expected_cost, line.billed_cost)).map((c) => `${causeName(c)}: ${c.words}`)].filter(Boolean).map((words) => html`<div>${words}</div>`)}</td></tr>`)}</tbody></table></div>`;
}
