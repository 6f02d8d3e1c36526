/* The search of every page: index files are scripts, so that it works without a server, and are loaded when the search is first used. */
const ROOT = document.documentElement.dataset.root;
const INDEX = [];
/* Called by the files of the index: rows of a kind are [name, file, other names, summary]. */
function opdbIndex(kind, one, rows) {
  for (const [name, file, also, summary] of rows) INDEX.push({ kind, one, name, file, summary, keys: [name, ...also].map(k => k.toLowerCase()), words: summary.toLowerCase() });
}

let loading = null;
const script = src => new Promise((done, failed) => document.head.append(el("script", { src, onload: done, onerror: failed })));
function loadIndex() {
  loading ??= script(`${ROOT}assets/search/kinds.js`).then(() => Promise.all(KINDS.map(kind => script(`${ROOT}assets/search/${kind}.js`))));
  return loading;
}

/* True if a longer text, e.g. a line of a log, quotes a name or has a number of its own that is a name. */
const quotes = (text, key) => (key.length >= 8 && text.length > key.length && text.includes(key)) || (/^\d{4,5}$/.test(key) && text.length > 12 && new RegExp(`\\b${key}\\b`).test(text));

/* The best pages for a text: all its words in a name, an alias or the summary; the shorter the way to the name, the better. */
function find(text, most = 30) {
  const asked = text.toLowerCase().trim(), parts = asked.split(/\s+/).filter(Boolean), found = [];
  if (!parts.length) return { hits: [], count: 0 };
  for (const entry of INDEX) {
    let score = Infinity;
    for (const [i, key] of entry.keys.entries()) {
      const late = i ? 0.5 : 0;
      if (key === asked) { score = Math.min(score, late); break; }
      if (entry.kind === "code" && quotes(asked, key)) score = Math.min(score, 1 + late);
      if (key.startsWith(asked)) score = Math.min(score, 2 + late + key.length / 100);
      else if (new RegExp(`[ ._:-]${asked.replace(/[^\w]/g, "\\$&")}(?![a-z0-9])`).test(key)) score = Math.min(score, 4 + late + key.length / 100);
      else if (parts.every(p => key.includes(p))) score = Math.min(score, 6 + late + key.length / 100);
    }
    if (score === Infinity && parts.every(p => entry.words.includes(p) || entry.keys.some(k => k.includes(p)))) score = 10 + entry.name.length / 100;
    if (score < Infinity) found.push([score + (ORDER[entry.kind] ?? 0) / 10, entry]);
  }
  found.sort((a, b) => a[0] - b[0] || (a[1].name < b[1].name ? -1 : 1));
  return { hits: found.slice(0, most).map(f => f[1]), count: found.length };
}

async function search() {
  const text = $("q").value;
  $("found").hidden = !text.trim();
  if (!text.trim()) return;
  await loadIndex();
  if (text !== $("q").value) return;
  const { hits, count } = find(text);
  $("count").textContent = count === 0 ? "Nothing is found; try a part of the name." : count > hits.length ? `The best ${hits.length} of ${count} pages` : `${count} page${count === 1 ? "" : "s"}`;
  $("hits").replaceChildren(...hits.map(h => el("li", {}, el("span", { className: "tag", textContent: h.one }), el("a", { href: `${ROOT}${h.kind}/${h.file}.html` }, ...broken(h.name)), " ", el("span", { className: "quiet", textContent: h.summary.slice(0, 140) }))));
}

function keys(event) {
  const links = [...$("hits").querySelectorAll("a")], at = links.indexOf(document.activeElement), typing = document.activeElement === $("q");
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) { event.preventDefault(); $("q").focus(); }
  if ($("found").hidden || (at < 0 && !typing)) return;
  if (event.key === "ArrowDown") { event.preventDefault(); links[Math.min(at + 1, links.length - 1)]?.focus(); }
  if (event.key === "ArrowUp") { event.preventDefault(); (at <= 0 ? $("q") : links[at - 1]).focus(); }
  if (event.key === "Escape") { $("q").value = ""; $("found").hidden = true; $("q").focus(); }
}

/* The field of a list hides the lines without its words. */
function filterList() {
  const lines = [...$("list").children].map(li => [li, li.textContent.toLowerCase()]);
  $("only").addEventListener("input", () => { const parts = $("only").value.toLowerCase().split(/\s+/); for (const [li, text] of lines) li.hidden = !parts.every(p => text.includes(p)); });
}

$("q").addEventListener("focus", loadIndex, { once: true });
$("q").addEventListener("input", search);
$("search").addEventListener("submit", async event => { event.preventDefault(); await search(); $("hits").querySelector("a")?.click(); });
document.addEventListener("keydown", keys);
if ($("list") && $("only")) filterList();
document.querySelectorAll("form.filters").forEach(form => form.addEventListener("submit", event => event.preventDefault()));
