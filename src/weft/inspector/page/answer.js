// What stands out in a session, and the answer next to its request.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { Problem, Ticked, Waiting, cost, embedded, many, number, placeOf, tryPolicy, useAnswer } from "./common.js";
import { Media, Prose } from "./text.js";

// One line to three: where the money goes, what broke the cache, who repeats whom, and what a policy would save.
export function Diagnosis({ session, version, go, show }) {
  const { data } = useAnswer("diagnosis", { session, version: version || "" });
  // A saving is compiled: it waits until the session is quiet.
  const [quiet, setQuiet] = useState("");
  useEffect(() => { const timer = setTimeout(() => setQuiet(`${session} ${version}`), embedded ? 0 : 1200); return () => clearTimeout(timer); }, [session, version]);
  const saving = useAnswer("saving", { session, version: version || "" }, Boolean(data) && quiet === `${session} ${version}`);
  if (!data) return null;
  const lines = [...data.lines, ...(saving.data && saving.data.words && !saving.busy ? [saving.data] : [])];
  const open = (line) => { if (line.kind === "auto") tryPolicy.set(line.policy); if (line.step) go(line.step); show(line.view, null); };
  return lines.length === 0 ? null : html`<ul class="diagnosis" data-testid="diagnosis" aria-label="what stands out">${lines.map((line) => html`<li class=${line.kind}>
    <span><${Ticked} text=${line.words} /></span> ${line.step > 0 && html`<button class="link" onClick=${() => open(line)}>${line.kind === "auto" ? "try it" : `call ${line.step}`}</button>`}</li>`)}</ul>`;
}

const seconds = (s) => (s === null || s === undefined ? null : s < 0.0995 ? `${Math.max(1, Math.round(s * 1000))} ms` : s < 99.5 ? `${s.toFixed(1)} s` : `${Math.round(s / 60)} min`);
const clock = (time) => (time > 1e8 ? new Date(time * 1000).toLocaleString() : "");

// What was said, how long it took, and its bill, next to what was promised.
export function Answer({ session, step, film, show }) {
  const { data, error } = useAnswer("answer", { session, step });
  // While the answer of another call travels the card keeps its height: nothing jumps.
  const box = useRef(null), [high, setHigh] = useState(0);
  useLayoutEffect(() => { if (box.current) setHigh(box.current.offsetHeight); }, [data]);
  if (error) return html`<section class="card answer"><${Problem} text=${error} /></section>`;
  if (!data || data.number !== step) return html`<section class="card answer travels" style=${`min-height: ${high}px`}><${Waiting} /></section>`;
  const frame = film.frames[step - 1], facts = [
    ["when", clock(data.time)], ["first token", seconds(data.first)], ["took", seconds(data.seconds)],
    ["tries", data.attempts.length > 1 ? `${data.attempts.length}: ${data.attempts.map((one) => one.outcome || one.code || "").filter(Boolean).join(", ")}` : ""],
    ["repeats", data.retries ? `call ${data.retries}` : ""], ["failed before", data.fallback.map((one) => `${one.model} (${one.code})`).join(", ")],
    ["ended", data.finish && data.finish.toLowerCase().replace(/_/g, " ")], ["returned", data.rejected],
  ].filter(([, value]) => value);
  return html`<section class="card answer" data-testid="answer" ref=${box} aria-label=${`answer of call ${step}`}>
    <div class="bar"><h2>Answer</h2><span class="dim">${data.agent}${data.model && ` · ${data.model}`}</span></div>
    ${data.error && html`<p class="red">${data.error}</p>`}
    <div class="said" tabindex="0" role="group" aria-label="what was answered">${data.parts.map((part) => html`<${Piece} part=${part} result=${part.id && data.results[part.id]} session=${session} event=${frame && frame.event} film=${film} show=${show} />`)}
      ${data.parts.length === 0 && !data.error && html`<p class="dim">Nothing was said.</p>`}</div>
    ${facts.length > 0 && html`<table class="facts"><tbody>${facts.map(([name, value]) => html`<tr><th>${name}</th><td>${value}</td></tr>`)}</tbody></table>`}
    <${Bill} bill=${data.bill} /></section>`;
}

const pretty = (text) => { try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; } };

function Piece({ part, result, session, event, film, show }) {
  if (part.kind === "thought") return html`<details><summary class="dim">thoughts</summary><div class="text dim">${part.text}</div></details>`;
  if (part.kind === "media") return html`<${Media} session=${session} event=${event} part=${part.part} mime=${part.mime} />`;
  if (part.kind === "call") return html`<details class="call" open><summary class="mono"><span class="calls">→ ${part.name}</span></summary><pre class="text">${pretty(part.text)}</pre>
    ${result && html`<div class="results mono">← ${show ? html`<button class="link" onClick=${() => show("events", result.index)}>event ${result.index + 1}</button>` : `event ${result.index + 1}`}</div><pre class="text">${result.text}</pre>`}</details>`;
  if (part.kind === "result") return html`<pre class="text results">← ${part.name} ${part.text}</pre>`;
  if (part.kind === "code" || part.kind === "code_result") return html`<pre class="text card">${part.text}</pre>`;
  return part.text ? html`<${Prose} text=${part.text} />` : null;
}

// The tokens and the price that were expected, and those that the provider counted.
function Bill({ bill }) {
  const { expected: e, billed: b, money } = bill;
  if (!e && !b) return null;
  const row = (name, was, is) => html`<tr><th>${name}</th><td class="n">${was}</td><td class="n">${is}</td></tr>`;
  const of = (load, name) => (load ? number(load[name]) : "–");
  return html`<table class="bill"><thead><tr><td></td><th class="n">expected</th><th class="n">billed</th></tr></thead><tbody>
    ${row("request", of(e, "total"), of(b, "total"))}${row("of it cached", of(e, "cached"), of(b, "cached"))}${b && row("answer", "–", of(b, "answer"))}
    ${row("cost", cost(bill.expected_cost, money), b ? cost(bill.billed_cost + bill.answer_cost, money) : "–")}</tbody></table>
    ${!b && html`<p class="dim">The provider reported no usage.</p>`}`;
}
