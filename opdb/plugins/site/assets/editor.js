"use strict";
/* The editor of a configuration: fields and JSON show the same config, and each change asks the validator. */
const DATA = JSON.parse($("op-data").textContent);
let config = null, validator = null;
const selectOf = (values, chosen, act, label) => { const made = el("select", { onchange: () => act(made.value) }, ...values.map(([v, t]) => el("option", { value: v, textContent: t }))); made.value = chosen; return el("label", {}, label, made); };
const inputOf = (value, act, label, title = "") => { const made = el("input", { size: Math.min(30, Math.max(10, value.length + 2)), value, title, onchange: () => act(made.value) }); return el("label", {}, label, made); };
const checkOf = (on, act, label) => { const made = el("input", { type: "checkbox", checked: on, onchange: () => act(made.checked) }); return el("label", { className: "check" }, made, label); };
/* Numbers in a text, e.g. "1, 8, 64" or "[[0, 1]]"; whole numbers beyond 2^53 as BigInt. */
const numbers = text => (text.match(/-?\d[\d.eE+-]*|true|false/g) ?? []).map(w => w === "true" ? true : w === "false" ? false : Number.isSafeInteger(Number(w)) || !/^-?\d+$/.test(w) ? Number(w) : BigInt(w));
const exact = (_, value, context) => typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
const jsonOf = made => JSON.stringify(written(made), (_, v) => typeof v === "bigint" ? Number(v) : v, 1).replace(/\[[^[\]{}]*\]/g, list => list.replace(/\s+/g, " ").replace("[ ", "[").replace(" ]", "]"));

let target = { name: "", soc: "", sdk: "" };
function startTarget() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1))), taken = KNOWN.order.filter(b => DATA.documented.includes(b));
  target = { name: KNOWN.backends.includes(wanted.backend) ? wanted.backend : taken[0] ?? KNOWN.order[0], soc: wanted.soc in KNOWN.chips ? wanted.soc : KNOWN.chip, sdk: KNOWN.sdks.includes(wanted.sdk) ? wanted.sdk : KNOWN.sdk };
  if (!wanted.config) return null;
  try { return read(JSON.parse(wanted.config, exact)); } catch { return null; }
}
const asked = () => targetOf(target.name, KNOWN.reads.includes(target.name) ? target.soc : null, target.sdk);

function change(made) {
  config = made;
  show();
}

function tensorFields(group, i, name) {
  const t = config[group][i], put = fresh => change({ ...config, [group]: config[group].map((u, k) => k === i ? { ...u, ...fresh } : u) });
  const types = KNOWN.dtypes.filter(d => d.short !== "str").map(d => [d.short, `${d.short} (${d.qnn})`]), q = t.quant;
  const fields = t.type === "NULL" ? [checkOf(true, () => put({ type: "NATIVE" }), "left out")] : [
    selectOf(types, t.dtype, dtype => put({ dtype, quant: reencoded(q, t.dtype, dtype) ?? (DTYPE[dtype].quantized ? QUANT("SCALE_OFFSET", [8 / 2 ** DTYPE[dtype].bits], [middle(DTYPE[dtype])]) : null) }), "type"),
    inputOf(t.shape.join(", "), text => put({ shape: numbers(text).map(Number).filter(n => Number.isInteger(n) && n >= 0), data: null }), "shape"),
    ...(group === "inputs" ? [checkOf(t.type === "STATIC", on => put({ type: on ? "STATIC" : "NATIVE" }), "constant")] : []),
    ...(q && q.scale.length < 2 ? [inputOf(q.scale.join(", "), text => put({ quant: { ...q, scale: numbers(text).map(Number) } }), "scale"), inputOf(q.offset.join(", "), text => put({ quant: { ...q, offset: numbers(text) } }), "offset")] : q ? [el("span", { className: "quiet", textContent: `${q.encoding}, ${q.scale.length} scales` })] : []),
    ...(optional(group, name) ? [checkOf(false, () => put({ type: "NULL" }), "left out")] : [])];
  return el("fieldset", {}, el("legend", {}, el("code", { textContent: name || `${group}[${i}]` })), ...fields);
}
const optional = (group, name) => DATA[group].some(s => s.optional && s.name === name.split("[")[0]);

function paramFields() {
  return DATA.params.map(slot => {
    const p = config.params.find(q => q.name === slot.name), rest = config.params.filter(q => q.name !== slot.name);
    const put = value => change({ ...config, params: value === null ? rest : [...rest, value] });
    const set = text => {
      const list = numbers(text).map(v => slot.dtype === "bool8" ? Boolean(v) : v);
      if (text.trim() === "") return put(null);
      if (!slot.dims.length) return put(slot.dtype === "str" ? { name: slot.name, dtype: slot.dtype, value: text, shape: null } : list.length ? { name: slot.name, dtype: slot.dtype, value: list[0], shape: null } : null);
      const width = slot.dims.length === 2 ? slot.dims[1] ?? p?.shape?.[1] ?? 1 : 0;
      return put({ name: slot.name, dtype: slot.dtype, value: list, shape: width ? [list.length / width, width] : [list.length] });
    };
    const label = `${slot.name} (${slot.dtype}${slot.dims.map(d => `[${d ?? ""}]`).join("")}${slot.required ? "" : ", may be left out"})`;
    if (slot.enum) return selectOf([...(slot.required ? [] : [["", "left out"]]), ...Object.entries(slot.enum).map(([w, v]) => [String(v), w])], p ? String(p.value) : "", set, label);
    if (slot.dtype === "bool8" && !slot.dims.length) return selectOf([...(slot.required ? [] : [["", "left out"]]), ["true", "true"], ["false", "false"]], p ? String(Boolean(p.value)) : "", set, label);
    return inputOf(p ? [p.value].flat().join(", ") : "", set, label, "numbers, separated by commas");
  });
}

function drawFields() {
  const focused = [...$("config").querySelectorAll("input, select, button")].indexOf(document.activeElement);
  const per = KNOWN.reads.includes(target.name), aim = fresh => { target = { ...target, ...fresh }; show(); };
  const chips = Object.entries(KNOWN.chips).map(([chip, c]) => [chip, c.names ? `${chip} (${c.names})` : chip]);
  const where = el("fieldset", {}, el("legend", { textContent: "Target" }), selectOf(KNOWN.order.map(b => [b, b]), target.name, name => aim({ name }), "backend"), ...(per ? [selectOf(chips, target.soc, soc => aim({ soc }), "chip")] : []), selectOf(KNOWN.sdks.map(s => [s, s]), target.sdk, sdk => aim({ sdk }), "QNN"));
  const names = { inputs: slotNames(config.inputs, DATA.inputs), outputs: slotNames(config.outputs, DATA.outputs) };
  const params = DATA.params.length ? [el("fieldset", {}, el("legend", { textContent: "Parameters" }), ...paramFields())] : [];
  $("config").replaceChildren(where, ...config.inputs.map((_, i) => tensorFields("inputs", i, names.inputs[i])), ...params, ...config.outputs.map((_, i) => tensorFields("outputs", i, names.outputs[i])),
    el("p", { className: "buttons" }, ...DATA.examples.map(e => el("button", { type: "button", textContent: `Example in ${read(e).inputs[0]?.dtype ?? "its types"}`, onclick: () => change(read(e)) })), el("button", { type: "button", textContent: "Infer the outputs' shapes", onclick: inferOutputs })));
  $("config").hidden = $("raw").hidden = false;
  if (focused >= 0) [...$("config").querySelectorAll("input, select, button")][focused]?.focus();
}

function inferOutputs() {
  const shapes = new Nearest(validator, asked()).shapes(config);
  if (shapes) change({ ...config, outputs: config.outputs.map((t, i) => shapes[i] ? { ...t, shape: shapes[i] } : t) });
}

const linked = id => id.includes(".") ? el("a", { href: `../rule/${id}.html`, textContent: id }) : el("a", { href: `../erratum/${id}.html`, textContent: id });
const known = rule => !/\.TYPES_/.test(rule) || DATA.documented.some(b => rule.endsWith(`_${b}`));
const line = v => el("li", {}, known(v.rule) ? linked(v.rule) : v.rule, ": ", v.sentence, v.got ? `; got ${v.got}` : "", v.undecidable ? " (cannot be evaluated)" : "", v.why ? ` ${v.why}` : "");

function drawVerdict() {
  const aim = asked(), { verdict, violations } = validator.verdict(config, aim), place = `${aim.name}${aim.soc ? " of " + aim.soc : ""}, QNN ${aim.version}`;
  const faults = violations.filter(v => v.strength === "erratum"), avoided = faults.filter(v => DATA.avoided.includes(v.erratum)), rules = violations.filter(v => v.strength !== "erratum");
  const [kind, word, text] = verdict === "reject" ? ["x", "no", `${place} refuses it.`] : verdict === "unknown" ? ["u", "not known", `a rule of ${place} cannot be evaluated.`]
    : avoided.length ? ["e", "yes, except", `the rules of ${place} allow it, but it meets a fault of the library that opdb avoids.`]
    : faults.length ? ["e", "yes, except", `${place} takes it; it meets a known fault of the library.`] : ["y", "yes", `${place} takes it.`];
  const parts = [el("p", {}, el("span", { className: `s ${kind}`, textContent: word }), " ", text)];
  if (rules.length) parts.push(el("ul", {}, ...rules.map(line)));
  if (faults.length) parts.push(el("p", { textContent: "Known faults of the library that it meets:" }), el("ul", {}, ...faults.map(line)));
  const near = verdict === "accept" && !avoided.length ? null : new Nearest(validator, aim).find(config);
  if (near) parts.push(el("p", {}, el("b", { textContent: "Nearest accepted: " }), near.advice || near.changes.join(", "), near.left.length ? ` (a known fault remains: ${near.left.join(", ")})` : "", " ", el("button", { type: "button", id: "use", textContent: near.advice ? "Show an example" : "Use it", onclick: () => change(near.config) })));
  else if (verdict === "reject") parts.push(el("p", { textContent: "No accepted configuration was found near it." }));
  $("verdict").replaceChildren(...parts);
}

function show(changed = true) {
  drawFields();
  $("json").value = jsonOf(config);
  drawVerdict();
  if (!changed) return; // an anchor stays in the address
  const more = { backend: target.name, ...(KNOWN.reads.includes(target.name) ? { soc: target.soc } : {}), sdk: target.sdk, config: JSON.stringify(written(config), (_, v) => typeof v === "bigint" ? Number(v) : v) };
  history.replaceState(null, "", "#" + new URLSearchParams(more));
}

$("json").addEventListener("change", () => {
  try { change(read({ ...JSON.parse($("json").value, exact), op: DATA.op })); }
  catch (error) { $("verdict").replaceChildren(el("p", { textContent: error instanceof ConfigError ? error.message : `not JSON: ${error.message}` })); }
});
$("config").addEventListener("submit", event => event.preventDefault());
const ready = Validator.open(WASM, DATA).then(made => {
  validator = made;
  config = startTarget() ?? read(DATA.examples[0]);
  show(false);
});
ready.catch(error => $("verdict").replaceChildren(el("p", { textContent: `The validator did not start: ${error.message}` })));
