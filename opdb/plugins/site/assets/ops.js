"use strict";
/* The list of ops as a matrix: kinds of numbers on one backend, chip and SDK; the choice is in the address, after #. */
const LETTER = ["y", "e", "x", "u"];

function fill(select, values, chosen) {
  select.replaceChildren(...values.map(([value, text]) => el("option", { value, textContent: text })));
  select.value = values.some(([v]) => v === chosen) ? chosen : values[0]?.[0] ?? "";
}

function choose(wanted = {}) {
  const backend = $("backend").value, of = MATRIX.backends[backend], per = !("" in of.parts);
  fill($("chip"), per ? Object.entries(MATRIX.chips).filter(([, c]) => c.part in of.parts).map(([chip, c]) => [chip, c.names ? `${chip} (${c.names})` : chip]) : [["", "any"]], wanted.chip ?? MATRIX.chip);
  fill($("sdk"), of.sdks.map(s => [s, s]), wanted.sdk ?? of.sdks[of.sdks.length - 1]);
}

function draw() {
  const of = MATRIX.backends[$("backend").value], chip = $("chip").value, part = of.parts[chip ? MATRIX.chips[chip].part : ""] ?? {}, ops = part[$("sdk").value] ?? {};
  const words = $("only").value.toLowerCase().split(/\s+/), names = Object.keys(ops).filter(op => words.every(w => op.toLowerCase().includes(w)));
  const cell = letter => letter === "-" ? "" : el("span", { className: `s ${LETTER[letter]}`, textContent: MATRIX.words[letter] });
  $("matrix").replaceChildren(table(["op", ...of.kinds], names.map(op => [el("a", { href: `${op}.html` }, ...broken(op)), ...[...ops[op]].map(cell)])));
  $("shown").textContent = `${names.length} ops with types on ${$("backend").value}${chip ? " of " + chip : ""}, QNN ${$("sdk").value}`;
  history.replaceState(null, "", "#" + new URLSearchParams({ backend: $("backend").value, chip, sdk: $("sdk").value }));
}

const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
fill($("backend"), Object.keys(MATRIX.backends).map(b => [b, b]), wanted.backend);
choose(wanted);
$("backend").addEventListener("change", () => { choose({ chip: $("chip").value }); draw(); });
for (const id of ["chip", "sdk"]) $(id).addEventListener("change", draw);
$("only").addEventListener("input", draw);
$("target").hidden = false;
draw();
