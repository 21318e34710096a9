// Texts as a person reads them: Markdown without HTML, files as pictures and sounds, long lists.
import { html, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { Problem, download, number, shared, useAnswer, useShared } from "./common.js";

// Whether Markdown is rendered; the key `m` changes it.
export const rendering = shared(true);

const LOOKS = /(^|\n)\s{0,3}(#{1,6} |[-*+] |\d+[.)] |> |```|~~~|\|.*\|)|\*\*\S|`[^`\n]+`|\[[^\]\n]+\]\([^)\s]+\)/;
const LONGEST_MARKDOWN = 60000, LONGEST_LINE = 2000;
export const isMarkdown = (text) => text.length < LONGEST_MARKDOWN && LOOKS.test(text);

// Parts of a line. A link shows where it leads; pictures of other servers are not loaded.
const INLINE = /`([^`]+)`|\*\*(\S(?:[^*]*\S)?)\*\*|\*(\S(?:[^*]*\S)?)\*|(!?)\[([^\]]*)\]\(([^)\s]+)\)/;
function inline(text) {
  const out = [];
  if (text.length > LONGEST_LINE) return text;
  for (let hit = INLINE.exec(text); hit; hit = INLINE.exec(text)) {
    if (hit.index) out.push(text.slice(0, hit.index));
    const [whole, code, strong, soft, picture, name, address] = hit;
    if (code !== undefined) out.push(html`<code>${code}</code>`);
    else if (strong !== undefined) out.push(html`<strong>${inline(strong)}</strong>`);
    else if (soft !== undefined) out.push(html`<em>${inline(soft)}</em>`);
    else if (!picture && /^(https?|mailto):/i.test(address)) out.push(html`<a href=${address} title=${address} target="_blank" rel="noreferrer noopener">${name || address}</a>`);
    else out.push(whole);
    text = text.slice(hit.index + whole.length);
  }
  out.push(text);
  return out;
}

const ITEM = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/, RULE = /^\s*\|?[\s:|-]*-[\s:|-]*$/;
const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function blocks(text) {
  const lines = text.split("\n"), out = [];
  for (let i = 0; i < lines.length;) {
    const line = lines[i], fence = /^\s{0,3}(```|~~~)/.exec(line), head = /^\s{0,3}(#{1,6})\s+(.*)$/.exec(line), item = ITEM.exec(line);
    const take = (fits) => { const start = i; while (i < lines.length && fits(lines[i], i)) i++; return lines.slice(start, i); };
    if (fence) {
      i++;
      const code = take((one) => !one.trim().startsWith(fence[1]));
      i++;
      out.push(html`<pre class="text">${code.join("\n")}</pre>`);
    } else if (head) { out.push(html`<p class="head"><b>${inline(head[2])}</b></p>`); i++; }
    else if (item) {
      const rows = take((one) => ITEM.test(one) || /^\s{2,}\S/.test(one)), list = [];
      for (const one of rows) {
        const [, indent, sign, words] = ITEM.exec(one) || [];
        if (words === undefined) list[list.length - 1][2] += `\n${one.trim()}`; else list.push([indent.length, sign, words]);
      }
      out.push(html`<div class="items" role="list">${list.map(([indent, sign, words]) => html`<div role="listitem" style=${`margin-left: ${Math.min(8, indent / 2)}rem`}><span aria-hidden="true">${/\d/.test(sign) ? sign : "•"}</span> <span>${inline(words)}</span></div>`)}</div>`);
    } else if (/^\s{0,3}>/.test(line)) out.push(html`<blockquote>${take((one) => /^\s{0,3}>/.test(one)).map((one) => html`${inline(one.replace(/^\s{0,3}> ?/, ""))}\n`)}</blockquote>`);
    else if (line.includes("|") && RULE.test(lines[i + 1] || "")) {
      const [top, , ...rows] = take((one) => one.includes("|"));
      out.push(html`<div class="scroll"><table class="grid"><thead><tr>${cells(top).map((cell) => html`<th>${inline(cell)}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${cells(row).map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`);
    } else if (!line.trim()) i++;
    else {
      const first = i;
      const words = take((one, at) => one.trim() && (at === first || !(ITEM.test(one) || /^\s{0,3}(#{1,6} |>|```|~~~)/.test(one))));
      out.push(html`<p>${words.map((one, n) => html`${n ? "\n" : ""}${inline(one)}`)}</p>`);
    }
  }
  return out;
}

export function Prose({ text }) {
  const is = useShared(rendering) && isMarkdown(text);
  const drawn = useMemo(() => (is ? blocks(text) : null), [is, text]);
  return is ? html`<div class="prose">${drawn}</div>` : html`<div class="text">${text}</div>`;
}

// A file of the log. What a browser cannot show safely is offered to be saved.
export function Media({ session, event, part, mime = "" }) {
  const [wanted, want] = useState(/^(image|audio|video)\//.test(mime));
  const { data, error } = useAnswer("media", { session, event, part }, wanted);
  if (!wanted) return html`<button onClick=${() => want(true)}>load ${mime || "file"}</button>`;
  if (error) return html`<${Problem} text=${error} />`;
  if (!data) return html`<span class="dim">loading ${mime}…</span>`;
  if (!data.data) return html`<span class="dim">${data.mime || mime || "file"}: the log does not hold it</span>`;
  const kind = /^(image|audio|video)\/[\w.+-]+$/.exec(data.mime), source = kind && `data:${data.mime};base64,${data.data}`, name = data.name || data.mime;
  if (kind && kind[1] === "image") return html`<img class="media" alt=${name} src=${source} />`;
  if (kind && kind[1] === "audio") return html`<audio class="media" controls aria-label=${name} src=${source}></audio>`;
  if (kind) return html`<video class="media" controls aria-label=${name} src=${source}></video>`;
  return html`<button onClick=${() => download(data.name || "file", Uint8Array.from(atob(data.data), (c) => c.charCodeAt(0)))}>save ${name}</button>`;
}

// A long list of rows of one height: only those that can be seen are drawn.
const TALLEST = 480;
export function Rows({ list, height, label, children }) {
  const box = useRef(null), [top, setTop] = useState(0);
  const room = Math.min(list.length * height, TALLEST), first = Math.max(0, Math.floor(top / height) - 6);
  const last = Math.min(list.length, first + Math.ceil(room / height) + 12);
  return html`<div class="rows" ref=${box} tabindex="0" role="region" aria-label=${`${label}, ${number(list.length)} rows`} data-rows=${list.length} style=${`height: ${room}px`} onScroll=${() => setTop(box.current.scrollTop)}>
    <div style=${`height: ${list.length * height}px`}>${list.slice(first, last).map((one, i) => html`<div class="line" key=${first + i} style=${`top: ${(first + i) * height}px; height: ${height}px`}>${children(one)}</div>`)}</div></div>`;
}
