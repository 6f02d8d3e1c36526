"use strict";
/* The verdict on an op config: the C validator of the op, compiled to WebAssembly.  KNOWN is what targets.js says of chips, backends and
   data types; opdb/plugins/site/c/bridge.c reads the words that are written here. */
class ConfigError extends Error {}

const DTYPE = Object.fromEntries(KNOWN.dtypes.flatMap(d => [[d.short, d], [d.qnn, d], ["QNN_DATATYPE_" + d.qnn, d]]));
const middle = d => d.quantized && d.qnn.startsWith("U") ? -(2 ** (d.bits - 1)) : 0;
const isFloat = d => d.qnn.startsWith("FLOAT") || d.qnn.startsWith("BFLOAT");
const whole = v => typeof v === "bigint" || Number.isInteger(v);
const size = shape => shape.reduce((n, d) => n * d, 1);
const flat = data => Array.isArray(data) ? data.flatMap(flat) : [data];

/* -- from JSON (docs/architecture.md, "Op configs") to a config whose fields are all there */

function read(raw) {
  if (raw === null || typeof raw !== "object" || Array.isArray(raw)) throw new ConfigError("an op config is an object with inputs, params and outputs");
  const tensors = (list, where) => {
    if (!Array.isArray(list ?? [])) throw new ConfigError(`${where}: expected a list of tensors`);
    return (list ?? []).map((t, i) => readTensor(t, `${where}[${i}]`));
  };
  const params = Object.entries(raw.params ?? {}).map(([name, p]) => readParam(name, p, `params.${name}`));
  return { op: raw.op, inputs: tensors(raw.inputs, "inputs"), params, outputs: tensors(raw.outputs, "outputs") };
}

function dtypeOf(name, where) {
  if (!DTYPE[name]) throw new ConfigError(`${where}: ${JSON.stringify(name)} is not a QNN data type; e.g. FLOAT_32, UFIXED_POINT_8`);
  return DTYPE[name].short;
}

function readTensor(raw, where) {
  if (raw === null || typeof raw !== "object") throw new ConfigError(`${where}: expected an object with dtype and shape`);
  const type = raw.type ?? "NATIVE", absent = type === "NULL";
  if (!(type in KNOWN.tensor_types) && !absent) throw new ConfigError(`${where}.type: ${JSON.stringify(type)} is not a tensor type`);
  const shape = raw.shape ?? (absent ? [] : undefined);
  if (!Array.isArray(shape) || !shape.every(d => Number.isInteger(d) && d >= 0 && d < 2 ** 31))
    throw new ConfigError(`${where}.shape: expected a list of dimensions from 0 to ${2 ** 31 - 1}, e.g. [1, 8, 64]`);
  if (shape.length > KNOWN.max_rank) throw new ConfigError(`${where}.shape: rank ${shape.length} is above the limit of ${KNOWN.max_rank}`);
  const dtype = dtypeOf(absent ? "f32" : raw.dtype, `${where}.dtype`);
  return { name: String(raw.name ?? ""), dtype, shape, type, data: raw.data ?? null, quant: raw.quant ? readQuant(raw.quant, `${where}.quant`) : null, sparse: raw.sparse ?? null };
}

function readQuant(raw, where) {
  if (!(raw.encoding in KNOWN.encodings)) throw new ConfigError(`${where}.encoding: expected one of ${Object.keys(KNOWN.encodings).join(", ")}`);
  const many = v => v === undefined || v === null ? [] : Array.isArray(v) ? v : [v];
  const found = { encoding: raw.encoding, scale: many(raw.scale), offset: many(raw.offset), axis: raw.axis ?? null, bits: raw.bits ?? null };
  if (!found.scale.every(v => typeof v === "number")) throw new ConfigError(`${where}.scale: expected numbers`);
  if (!found.offset.every(whole)) throw new ConfigError(`${where}.offset: expected whole numbers`);
  for (const more of ["block_size", "blocks", "vector"]) if (raw[more]) found[more] = raw[more];
  return found;
}

function readParam(name, raw, where) {
  if (raw === null || typeof raw !== "object") throw new ConfigError(`${where}: expected an object with dtype and value, or dtype, shape and data`);
  const dtype = dtypeOf(raw.dtype, `${where}.dtype`), scalar = "value" in raw;
  if (!scalar && !("data" in raw)) throw new ConfigError(`${where}: the field 'value' or 'data' is missing`);
  const values = scalar ? [raw.value] : flat(raw.data);
  for (const v of values) if (!fitsType(v, DTYPE[dtype])) throw new ConfigError(`${where}: ${String(v)} is not a value of ${DTYPE[dtype].qnn}`);
  if (scalar) return { name, dtype, value: raw.value, shape: null };
  const shape = raw.shape ?? [values.length];
  if (size(shape) !== values.length) throw new ConfigError(`${where}.data: ${values.length} values do not fill the shape [${shape.join(", ")}]`);
  return { name, dtype, value: values, shape };
}

function fitsType(v, d) {
  if (d.short === "str") return typeof v === "string";
  if (d.short === "bool8") return v === true || v === false || v === 0 || v === 1;
  if (isFloat(d)) return typeof v === "number" || typeof v === "bigint";
  if (!whole(v)) return false;
  const n = BigInt(v), bits = BigInt(d.bits), unsigned = d.qnn.startsWith("U");
  const top = 2n ** (unsigned ? bits : bits - 1n) - 1n, most = top < 2n ** 63n - 1n ? top : 2n ** 63n - 1n;
  return n >= (unsigned ? 0n : -(2n ** (bits - 1n))) && n <= most;
}

/* The inverse of `read`, for the editor: QNN's names, no empty fields. */
function written(config) {
  const tensor = t => ({ name: t.name, dtype: DTYPE[t.dtype].qnn, shape: t.shape, type: t.type, ...(t.data === null ? {} : { data: t.data }), ...(t.quant ? { quant: writtenQuant(t.quant) } : {}), ...(t.sparse ? { sparse: t.sparse } : {}) });
  const param = p => p.shape === null ? { dtype: DTYPE[p.dtype].qnn, value: p.value } : { dtype: DTYPE[p.dtype].qnn, shape: p.shape, data: p.value };
  return { op: config.op, inputs: config.inputs.map(tensor), params: Object.fromEntries(config.params.map(p => [p.name, param(p)])), outputs: config.outputs.map(tensor) };
}
const writtenQuant = q => Object.fromEntries(Object.entries(q).filter(([, v]) => v !== null && !(Array.isArray(v) && v.length === 0)));

/* -- slots: by name if every tensor has the name of one, else by position */

function named(tensors, slots) {
  const names = tensors.map(t => t.name.split("[")[0]), variadic = Object.fromEntries(slots.map(s => [s.name, s.variadic])), seen = new Set();
  for (const n of names) {
    if (!(n in variadic) || (seen.has(n) && !variadic[n])) return null;
    seen.add(n);
  }
  return names.length ? names : null;
}

/* The tensors in the order of their slots, null for an omitted one. */
function arranged(tensors, slots) {
  const names = named(tensors, slots), present = tensors.map(t => t.type === "NULL" ? null : t);
  if (names === null) return present;
  const out = slots.flatMap(s => {
    const mine = present.filter((_, i) => names[i] === s.name);
    return mine.length || s.variadic ? mine : [null];
  });
  while (out.length && out[out.length - 1] === null) out.pop();
  return out;
}

/* The slot of each tensor, xs[1] in a variadic one, "" for a surplus one. */
function slotNames(tensors, slots) {
  let names = named(tensors, slots);
  if (names === null) {
    const surplus = Math.max(tensors.length - slots.length + 1, 0);
    names = slots.flatMap(s => Array(s.variadic ? surplus : 1).fill(s.name));
    names = [...names, ...Array(tensors.length).fill("")].slice(0, tensors.length);
  }
  const variadic = new Set(slots.filter(s => s.variadic).map(s => s.name));
  return names.map((n, i) => variadic.has(n) ? `${n}[${names.slice(0, i).filter(m => m === n).length}]` : n);
}

/* -- words: every number of the config as 64 bits */

const DOUBLE = new DataView(new ArrayBuffer(8));
function realWord(v) {
  DOUBLE.setFloat64(0, Number(v));
  return DOUBLE.getBigInt64(0);
}
const intWord = v => BigInt.asIntN(64, typeof v === "bigint" ? v : BigInt(Math.trunc(Number(v))));

/* The integers of a constant tensor that rules read: zeros without data, null for any other tensor. */
function values(t) {
  const count = size(t.shape);
  if (t.type !== "STATIC" || t.sparse || !/^[iu](8|16|32|64)$/.test(t.dtype) || count > KNOWN.max_values) return null;
  if (t.data === null) return Array(count).fill(0);
  const found = flat(t.data);
  return found.length === count && found.every(whole) ? found : null;
}

function tensorWords(t, out) {
  if (t === null) { out.push(0n); return; }
  const q = t.quant, kind = DTYPE[t.dtype], known = values(t);
  const symmetric = !q || q.offset.every(o => Number(o) === middle(kind));
  out.push(1n, intWord(t.shape.length), ...t.shape.map(intWord), intWord(kind.code), intWord(q ? KNOWN.encodings[q.encoding] : KNOWN.no_encoding), symmetric ? 1n : 0n,
    intWord(KNOWN.tensor_types[t.type]), t.sparse ? 1n : 0n, intWord(q && q.axis !== null ? q.axis : -1));
  if (known === null) out.push(0n); else { out.push(1n, intWord(known.length)); for (const v of known) out.push(intWord(v)); }
  if (!q) { out.push(0n); return; }
  const offsets = q.offset.length ? q.offset : q.scale.map(() => 0), n = Math.min(q.scale.length, offsets.length);
  out.push(1n, intWord(n), intWord(q.bits ?? 0));
  for (let i = 0; i < n; i++) out.push(realWord(q.scale[i]));
  for (let i = 0; i < n; i++) out.push(intWord(offsets[i]));
}

function textWords(text, out) {
  const bytes = new TextEncoder().encode(text), padded = new Uint8Array((Math.floor(bytes.length / 8) + 1) * 8);
  padded.set(bytes);
  out.push(intWord(bytes.length), ...new BigInt64Array(padded.buffer));
}

function paramWords(p, out) {
  const numbers = p.shape === null ? [p.value] : p.value, real = numbers.filter(v => typeof v !== "string");
  textWords(p.name, out);
  out.push(intWord(DTYPE[p.dtype].code), intWord(p.shape ? p.shape.length : 0), ...(p.shape ?? []).map(intWord), intWord(numbers.length));
  for (const v of numbers) out.push(typeof v === "boolean" ? (v ? 1n : 0n) : whole(v) ? intWord(v) : 0n);
  out.push(realWord(real.length ? real[0] : 0));
  const reals = p.shape !== null && isFloat(DTYPE[p.dtype]);
  out.push(reals ? 1n : 0n);
  if (reals) for (const v of numbers) out.push(realWord(v));
}

function words(op, config, target) {
  const out = KNOWN.members.map(m => intWord(target[m]));
  for (const group of ["inputs", "outputs"]) {
    const tensors = arranged(config[group], op[group]);
    out.push(intWord(tensors.length));
    for (const t of tensors) tensorWords(t, out);
  }
  out.push(intWord(config.params.length));
  for (const p of config.params) paramWords(p, out);
  return out;
}

/* C's %.9g: rounded to 9 digits, ties to the even one. */
function real9(x) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const sign = x < 0 || Object.is(x, -0) ? "-" : "", a = Math.abs(x);
  if (a === 0) return sign + "0";
  const far = a.toExponential(60), tie = /^50*$/.test(far.slice(10, far.indexOf("e"))) && Number(far[9]) % 2 === 0;
  const near = tie ? far.slice(0, 10) + far.slice(far.indexOf("e")) : a.toExponential(8);
  const at = near.indexOf("e"), digits = near.slice(0, at).replace(".", ""), exponent = Number(near.slice(at + 1));
  const short = digits.replace(/0+$/, "");
  if (exponent < -4 || exponent >= 9)
    return `${sign}${short[0]}${short.length > 1 ? "." + short.slice(1) : ""}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${short}`;
  const before = digits.slice(0, exponent + 1), after = short.slice(exponent + 1);
  return sign + before + (after ? "." + after : "");
}

/* -- the module of one op */

class Validator {
  /* `base64`: the module; `op`: inputs, params and outputs of the op, and its rows of data types. */
  static async open(base64, op) {
    const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
    let memory = null;
    const format_real = (value, at) => new Uint8Array(memory.buffer).set([...new TextEncoder().encode(real9(value)), 0], at);
    const { instance } = await WebAssembly.instantiate(bytes, { page: { format_real } });
    memory = instance.exports.memory;
    return new Validator(instance.exports, op);
  }

  constructor(exports, op) {
    this.exports = exports;
    this.op = op;
  }

  _at(config, target) {
    const given = words(this.op, config, target), at = this.exports.room(given.length * 8);
    new BigInt64Array(this.exports.memory.buffer, at, given.length).set(given);
    return at;
  }

  /* The broken rules and the errata that the config meets on a target (see `targetOf`). */
  violations(config, target) {
    const at = this.exports.validate(this._at(config, target)), bytes = new Uint8Array(this.exports.memory.buffer);
    const text = new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
    return text.split("\x1e").filter(Boolean).map(record => {
      const [rule, sentence, got, why, erratum, effect, undecidable, strength] = record.split("\x1f");
      return { rule, sentence, got, why, erratum, effect, undecidable: undecidable !== "", strength };
    });
  }

  /* accept, reject, or unknown (no rule is broken, but one cannot be evaluated, or the backend has no rules of the op). */
  verdict(config, target) {
    const found = this.violations(config, target);
    if (target.name && !this.op.documented.includes(target.name))
      found.push({ rule: `${this.op.op}.TYPES_${target.name}`, sentence: `only the op's definition was judged: opdb has no rules of ${this.op.op} on ${target.name}`, got: "", why: "", erratum: "", effect: "", undecidable: true, strength: "require" });
    const broken = found.filter(v => v.strength === "require");
    return { verdict: !broken.length ? "accept" : broken.every(v => v.undecidable) ? "unknown" : "reject", violations: found };
  }

  /* The shapes of all outputs in order; null if inputs and parameters do not determine them. */
  infer(config, target) {
    const at = this.exports.infer(this._at(config, target)), found = new BigInt64Array(this.exports.memory.buffer, at);
    if (found[0] < 0n) return null;
    const shapes = [];
    for (let i = 0, p = 1; i < Number(found[0]); i++) {
      const rank = Number(found[p]);
      shapes.push([...found.slice(p + 1, p + 1 + rank)].map(Number));
      p += 1 + rank;
    }
    return shapes;
  }
}

/* A backend, a chip (null for a backend that runs anywhere) and an SDK, e.g. "2.47", as validators read them. */
function targetOf(name, soc, sdk) {
  const of = soc && KNOWN.chips[soc] && KNOWN.reads.includes(name) ? KNOWN.chips[soc].values : {};
  const target = Object.fromEntries(KNOWN.members.map(m => [m, of[m] ?? 0]));
  const [major, minor] = sdk.split(".").map(Number);
  return { ...target, backend: KNOWN.backends.indexOf(name), sdk: major * 1000 + minor, name, soc, version: sdk };
}
