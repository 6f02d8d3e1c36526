"use strict";
/* The nearest accepted config, found as opdb.judge.nearest does: changes are tried, the smallest first, at most two are combined, and the
   validator tells which config is accepted.  If none helps, the same data is tried with another number of dimensions, then an example. */
const SINGLES = 300, PAIRS = 200, ALIKE = 3, INF = Infinity;
const [SHAPE, ENCODING, STATIC, PARAM, TYPE, UNLIKELY] = [0, 1, 2, 3, 4, 5];
const FLOATS = ["f16", "f32", "f64", "bf16"];
const same = (a, b) => JSON.stringify(a, plain) === JSON.stringify(b, plain);
const plain = (_, v) => typeof v === "bigint" ? String(v) : v;
const unique = list => { const seen = new Set(); return list.filter(v => { const k = JSON.stringify(v, plain); return !seen.has(k) && seen.add(k); }); };
const less = (a, b) => { for (let i = 0; i < Math.max(a.length, b.length); i++) { const d = Number(a[i] ?? -INF) - Number(b[i] ?? -INF); if (d) return d; } return 0; };

/* -- other data types */

const NEIGHBORS = ["sq uq", "int uint", "bool uint", "bool int", "float int", "float uint"].map(pair => pair.split(" "));
const kindOf = short => ({ f: "float", bf: "float", i: "int", u: "uint" })[short.replace(/\d+$/, "")] ?? short.replace(/\d+$/, "");
function far(a, b) {
  if (a === b) return 0;
  const [ka, kb] = [kindOf(a), kindOf(b)], next = NEIGHBORS.some(p => p.includes(ka) && p.includes(kb));
  const step = ka === kb ? 0 : next ? 1 : 2, made = DTYPE[b].quantized && !DTYPE[a].quantized ? 0.05 : 0;
  return made + 10 * step + Math.abs(Math.log2(DTYPE[a].bits) - Math.log2(DTYPE[b].bits)) + 0.1;
}

/* For 1, 2, ... changed tensors: lists of [types of all tensors, distance]. */
function retyped(tensors, rows) {
  if (!rows.length)
    return [tensors.flatMap(([, was], i) => KNOWN.dtypes.filter(d => d.short !== was).map(d => [tensors.map(([, t], k) => k === i ? d.short : t), [far(was, d.short), 0]]))];
  const slots = [...new Set(tensors.map(([s]) => s))], groups = slots.map(s => tensors.flatMap(([t], i) => t === s ? [i] : []));
  const tables = rows.flatMap((row, order) => {
    const options = groups.map((group, g) => typeOptions(group.map(i => tensors[i][1]), row.cells[slots[g]] ?? []));
    return options.every(o => o.length) ? [[order, options]] : [];
  });
  const levels = [], seen = new Set();
  for (let count = 1; count <= tensors.length; count++) {
    const level = [];
    for (const [order, options] of tables)
      for (const [unlike, types] of exactly(options, count)) {
        const placed = [];
        groups.flat().forEach((place, i) => { placed[place] = types[i]; });
        const key = placed.join();
        if (!seen.has(key)) { seen.add(key); level.push([placed, [Math.round(unlike * 1000) / 1000, order]]); }
      }
    if (level.length) levels.push(level);
  }
  return levels;
}

function typeOptions(had, cell) {
  const found = had.every(d => cell.includes(d)) ? [had] : [];
  for (const now of cell) found.push(had.map(() => now), had.map(d => cell.includes(d) ? d : now));
  return unique(found).map(types => { const pairs = had.map((a, i) => [a, types[i]]).filter(([a, b]) => a !== b); return [pairs.length, pairs.reduce((s, [a, b]) => s + far(a, b), 0), types]; })
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

function* exactly(options, count) {
  if (!options.length) { if (count === 0) yield [0, []]; return; }
  const rest = options.slice(1), least = rest.reduce((s, o) => s + o[0][0], 0), most = rest.reduce((s, o) => s + o[o.length - 1][0], 0);
  for (const [changed, unlike, types] of options[0])
    if (least <= count - changed && count - changed <= most)
      for (const [more, others] of exactly(rest, count - changed)) yield [unlike + more, [...types, ...others]];
}

/* -- other encodings */

const QUANT = (encoding, scale, offset, axis = null) => ({ encoding, scale, offset, axis, bits: null });
function encodings(t) {
  const d = DTYPE[t.dtype], q = t.quant, found = [], mid = middle(d);
  if (!d.quantized) found.push(null);
  else if (!q) found.push(QUANT("SCALE_OFFSET", [1], [mid]));
  else {
    const scale = Math.max(...q.scale, ...(q.scale.length ? [] : [1])), several = Math.max(q.scale.length, 1);
    if (/^(BW_)?(AXIS_)?SCALE_OFFSET$/.test(q.encoding)) {
      found.push({ ...q, offset: Array(several).fill(mid) });
      if (q.axis !== null) t.shape.forEach((n, axis) => found.push(along(q, axis, n)));
    }
    found.push(QUANT("SCALE_OFFSET", [scale], q.offset.length ? q.offset.slice(0, 1) : [0]), QUANT("SCALE_OFFSET", [scale], [mid]));
    for (let axis = t.shape.length - 1; axis >= 0; axis--) found.push(along(QUANT("AXIS_SCALE_OFFSET", [scale], [mid]), axis, t.shape[axis]));
    if (d.bits <= 16) found.push(QUANT("SCALE_OFFSET", [2 ** -d.bits], [d.qnn.startsWith("U") ? 0 : 2 ** (d.bits - 1)]), QUANT("SCALE_OFFSET", [2 ** (1 - d.bits)], [mid]));
  }
  return unique(found).filter(e => !same(e, q));
}

function along(q, axis, n) {
  if (q.scale.length === n && (q.offset.length === 0 || q.offset.length === n)) return { ...q, axis };
  const count = Math.min(n, 65536), offset = new Set(q.offset).size === 1 ? Array(count).fill(q.offset[0]) : Array(count).fill(0);
  return { ...q, axis, scale: Array(count).fill(Math.max(...q.scale, ...(q.scale.length ? [] : [1]))), offset };
}

/* The encoding of the same real numbers in another type. */
function reencoded(q, before, after) {
  const [a, b] = [DTYPE[before], DTYPE[after]];
  if (!b.quantized || !q || !a.quantized) return null;
  if (q.bits !== null || q.blocks || q.vector) return { ...q, offset: q.offset.map(() => middle(b)) };
  if (q.offset.every(o => Number(o) === middle(a))) return { ...q, scale: q.scale.map(s => s * 2 ** (a.bits - b.bits)), offset: q.offset.map(() => middle(b)) };
  const low = d => d.qnn.startsWith("U") ? 0 : -(2 ** (d.bits - 1)), factor = (2 ** a.bits - 1) / (2 ** b.bits - 1);
  const offsets = q.offset.length ? q.offset : q.scale.map(() => 0);
  return { ...q, scale: q.scale.map(s => s * factor), offset: offsets.map(o => Math.round((low(a) + Number(o)) / factor) - low(b)) };
}

/* -- other values of a parameter: [parameter or null, distance, between or null] */

const bounds = short => { const d = DTYPE[short], bits = Math.min(d.bits, 53), unsigned = d.qnn.startsWith("U"); return unsigned ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]; };
function integersNear(value, short, shapes) {
  const [low, high] = bounds(short), found = new Set(), add = n => { if (n !== value && n >= low && n <= high && Number.isSafeInteger(n)) found.add(n); };
  for (let n = value - 8; n <= value + 8; n++) add(n);
  for (let n = 0; n < 9; n++) add(n);
  for (const d of new Set(shapes.flat())) { add(d); for (let n = 2; n <= Math.min(d, 64); n++) if (d % n === 0) add(n); }
  for (let step = 1; step < 33; step++) { add(Math.floor(value / 2 ** step)); add(value * 2 ** step); add(8 * 2 ** step); }
  return [...found].sort((a, b) => Math.abs(a - value) - Math.abs(b - value) || a - b);
}
function floatsNear(value, others) {
  const found = [-value, 0, 1, -1, 0.5, 1e-5, 255, ...others];
  for (let n = -6; n < 7; n++) if (n) found.push(value * 10 ** n);
  const near = v => Number.isFinite(value) ? Math.abs(v - value) : Math.abs(v);
  return [...new Set(found)].filter(v => Number.isFinite(v) && v !== value).sort((a, b) => near(a) - near(b) || a - b);
}

function* fitting(was, slot, shapes, floats) {
  if (was && !slot.required) yield [null, [FLOATS.includes(slot.dtype) ? 0 : INF], null];
  const shaped = was && (was.shape ?? []).length === slot.dims.length && slot.dims.every((d, i) => d === null || d === was.shape[i]);
  if (!was || was.dtype !== slot.dtype || !shaped) { yield* formed(was, slot, shapes); return; }
  const one = v => ({ ...was, value: v });
  if (was.shape !== null) yield* ofTensor(was, shapes, floats);
  else if (slot.enum) for (const v of Object.values(slot.enum)) { if (v !== Number(was.value)) yield [one(v), [Math.abs(v - Number(was.value))], null]; }
  else if (slot.dtype === "bool8") yield [one(!was.value), [1], null];
  else if (FLOATS.includes(slot.dtype)) for (const v of floatsNear(Number(was.value), floats)) yield [one(v), [Math.abs(v - Number(was.value))], null];
  else if (slot.dtype !== "str") { const old = Number(was.value); for (const v of integersNear(old, slot.dtype, shapes)) yield [one(v), [Math.abs(v - old)], [old, v, one]]; }
}

/* A given value in the form of the definition, or values for a missing one. */
function* formed(was, slot, shapes) {
  const forms = count => {
    if (!slot.dims.length) return [null];
    if (!slot.dims.includes(null)) return [slot.dims];
    const fixed = slot.dims.reduce((n, d) => n * (d ?? 1), 1), lengths = [1, ...shapes.map(s => s.length)];
    if (count !== null && fixed && count % fixed === 0) lengths.unshift(count / fixed);
    return [...new Set(lengths)].map(n => slot.dims.map(d => d ?? n));
  };
  const cast = v => typeof v === "string" || !Number.isFinite(Number(v)) ? null : slot.enum ? Object.values(slot.enum).sort((a, b) => Math.abs(a - Number(v)) - Math.abs(b - Number(v)) || a - b)[0]
    : slot.dtype === "bool8" ? Boolean(v) : FLOATS.includes(slot.dtype) ? Number(v) : Math.min(Math.max(Math.round(Number(v)), bounds(slot.dtype)[0]), bounds(slot.dtype)[1]);
  let order = 0;
  const make = (list, shape) => [{ name: slot.name, dtype: slot.dtype, value: shape === null ? list[0] : list, shape }, [order++], null];
  const numbers = was ? (was.shape === null ? [was.value] : was.value).map(cast) : [];
  if (was && slot.dtype !== "str" && numbers.every(v => v !== null))
    for (const shape of forms(numbers.length)) {
      const n = size(shape ?? [1]);
      if (numbers.length || !n) yield make(Array.from({ length: n }, (_, i) => numbers[Math.min(i, numbers.length - 1)]), shape);
    }
  const usual = slot.enum ? Object.values(slot.enum) : slot.dtype === "bool8" ? [false, true] : FLOATS.includes(slot.dtype) ? [0, 1]
    : slot.dtype === "str" ? [] : [...Array(Math.max(0, ...shapes.map(s => s.length)) + 1).keys()];
  for (const v of usual) for (const shape of forms(null)) yield make(Array(size(shape ?? [1])).fill(v), shape);
}

const apart = (a, b) => { const pairs = a.slice(0, b.length).map((x, i) => [x, b[i]]).filter(([x, y]) => x !== y); return [Math.abs(a.length - b.length) + pairs.length, pairs.reduce((s, [x, y]) => s + Math.abs(x - y), 0)]; };
function* ofTensor(was, shapes, floats) {
  const integer = !FLOATS.includes(was.dtype) && was.dtype !== "bool8" && was.dtype !== "str", old = was.value.map(v => typeof v === "bigint" ? Number(v) : v);
  const small = (n, v) => Math.abs(n - v) <= 3 || (n >= 0 && n <= 2) || n === Math.floor(v / 2) || shapes.some(s => s.includes(n) || n === s.length - 1);
  for (const v of new Set(old)) {
    const equal = old.flatMap((w, i) => w === v ? [i] : []);
    const numbers = integer ? integersNear(v, was.dtype, shapes).filter(n => small(n, v)) : was.dtype === "bool8" ? [!v] : was.dtype === "str" ? [] : floatsNear(v, floats);
    for (const places of equal.length === 1 ? [equal] : [...equal.map(i => [i]), equal]) {
      const make = n => ({ ...was, value: old.map((w, i) => places.includes(i) ? n : w) });
      for (const n of numbers) yield [make(n), [places.length, Math.abs(n - v) * places.length], integer ? [v, n, make] : null];
    }
  }
  if (integer && was.shape.length === 1)
    for (const list of unique([...listsNear(old, shapes)])) if (!same(list, old)) yield [{ ...was, value: list, shape: [list.length] }, apart(old, list), null];
  if (was.shape.length === 2)
    for (const rows of new Set(shapes.map(s => s.length))) if (rows !== was.shape[0]) {
      const n = rows * was.shape[1], list = Array.from({ length: n }, (_, i) => old[i] ?? 0);
      yield [{ ...was, value: list, shape: [rows, was.shape[1]] }, apart(old, list), null];
    }
}
function* listsNear(old, shapes) {
  for (let i = 0; i < old.length; i++) yield [...old.slice(0, i), ...old.slice(i + 1)];
  yield [...new Set(old)];
  yield [...new Set(old)].sort((a, b) => a - b);
  for (const rank of new Set(shapes.map(s => s.length).filter(Boolean))) {
    for (const list of [old.map(v => Math.min(Math.max(v, 0), rank - 1)), old.map(v => ((v % rank) + rank) % rank)]) { yield list; yield [...new Set(list)]; }
    for (let n = 0; n < rank; n++) { yield [n]; yield [...old, n]; }
    const all = [...Array(rank).keys()];
    yield all;
    yield [...all].reverse();
    yield [...old, ...Array(rank).fill(1)].slice(0, rank);
    if (rank <= 4 && old.length === rank) yield* permutations(all);
  }
  yield* shapes;
}
function* permutations(list) {
  if (list.length < 2) { yield list; return; }
  for (let i = 0; i < list.length; i++) for (const rest of permutations([...list.slice(0, i), ...list.slice(i + 1)])) yield [list[i], ...rest];
}

/* -- the same data with another number of dimensions */

const MERGES_ALL = /^(ElementWise.*|Cast|Convert|Dequantize|Gelu|Quantize|Relu|Relu1|Relu6|ReluMinMax|Sigmoid|Tanh)$/, IMAGES = ["InstanceNorm", "GroupNorm", "Resize"];
const isAxis = p => p.name === "axis" || p.name === "axes";
const axesOf = p => (p.shape === null ? [p.value] : p.value).map(Number);
const withAxes = (p, list) => p.shape === null ? { ...p, value: list[0] } : { ...p, value: list, shape: [list.length] };
function* merged(config) {
  const rank = Math.max(0, ...config.inputs.filter(t => t.type !== "NULL").map(t => t.shape.length));
  const free = MERGES_ALL.test(config.op) || config.params.some(isAxis) ? INF : IMAGES.includes(config.op) ? 0 : 1;
  for (let at = 0; at < Math.min(rank - 1, free); at++) {
    const inputs = config.inputs.map(t => mergeTensor(t, at - (rank - t.shape.length))), params = config.params.map(p => isAxis(p) ? mergeAxes(p, at, rank) : p);
    if (inputs.every(Boolean) && params.every(Boolean)) yield { ...config, inputs, params };
  }
}
function mergeTensor(t, at) {
  if (t.type === "NULL" || at < -1 || (at === -1 && (t.shape.length === 0 || t.shape[0] === 1))) return t;
  if (at === -1) return null;
  let quant = t.quant;
  if (quant && quant.axis !== null) {
    if (quant.axis === at || quant.axis === at + 1) return null;
    quant = { ...quant, axis: quant.axis - (quant.axis > at ? 1 : 0) };
  }
  return { ...t, shape: [...t.shape.slice(0, at), t.shape[at] * t.shape[at + 1], ...t.shape.slice(at + 2)], quant };
}
function mergeAxes(p, at, rank) {
  const list = axesOf(p);
  if (!list.every(v => v >= 0 && v < rank)) return null;
  if ([at, at + 1].filter(v => list.includes(v)).length === 1 || (p.shape === null && (list[0] === at || list[0] === at + 1))) return null;
  return withAxes(p, [...new Set(list.map(v => v - (v > at ? 1 : 0)))]);
}
function* widened(config) {
  const ranks = [...new Set(config.inputs.filter(t => t.type !== "NULL").map(t => t.shape.length))].sort((a, b) => b - a);
  for (const rank of ranks) {
    const inputs = config.inputs.map(t => t.type === "NULL" || t.shape.length !== rank ? t : { ...t, shape: [1, ...t.shape], quant: t.quant && t.quant.axis !== null ? { ...t.quant, axis: t.quant.axis + 1 } : t.quant });
    yield { ...config, inputs, params: config.params.map(p => isAxis(p) && rank === ranks[0] ? withAxes(p, axesOf(p).map(v => v + 1)) : p) };
  }
}

/* -- the search */

class Nearest {
  constructor(validator, target) {
    this.validator = validator;
    this.op = validator.op;
    this.target = target;
    this.tried = 0;
    this.strict = true;
    const slots = [...this.op.inputs, ...this.op.outputs].map(s => s.name), number = target.sdk;
    this.rows = (this.op.rows[target.name] ?? []).filter(r => r.since <= number && (!r.until || number <= r.until) && (!r.needs || target[r.needs]))
      .map(r => ({ cells: Object.fromEntries(slots.map((s, i) => [s, r.cells[i]])) }));
  }

  /* The rules that forbid a config and, if the search is strict, the errata that opdb avoids. */
  broken(config) {
    this.tried++;
    return this.validator.violations(config, this.target).filter(v => v.strength === "require" || (this.strict && this.isAvoided(v)));
  }
  isAvoided(v) { return v.strength === "erratum" && this.op.avoided.includes(v.erratum); }

  /* { config, changes: texts, advice } or null if the config is accepted or nothing helps.  First without known faults of the library. */
  find(config) {
    const bare = { ...config, inputs: config.inputs.map(t => ({ ...t, data: null })) };
    let found = null, advice = "";
    for (this.strict of [true, false]) {
      const broken = this.broken(bare);
      if (!broken.length) return this.strict ? null : found;
      found = this.run(bare, broken);
      const others = found && [...bare.inputs, ...bare.outputs].some((t, i) => far(t.dtype, [...found.inputs, ...found.outputs][i].dtype) >= 10);
      if ((!found || others) && broken.some(v => v.got.includes(".rank = "))) found = this.reshaped(bare) ?? found;
      if (found) break;
    }
    if (!found) {
      const broken = this.broken(bare), of = broken.filter(v => /\.(rank|shape) = /.test(v.got));
      this.strict = true;
      found = this.rebuilt(bare);
      const data = found && found.inputs.some((t, i) => !bare.inputs[i] || bare.inputs[i].type === "NULL" || !same(t.shape, bare.inputs[i].shape));
      advice = data ? "only with other data: " + [...new Set((of.length ? of : broken).map(v => v.sentence))].join("; ") : "";
    }
    if (!found) return null;
    const left = this.validator.violations(found, this.target).filter(v => this.isAvoided(v)).map(v => v.erratum);
    return { config: found, changes: changes(bare, found, this.op), advice, left };
  }

  run(config, broken) {
    const wrong = new Set(broken.map(v => v.rule)), helpful = [], cured = new Set();
    this.tried = 0;
    for (const move of this.moves(config, broken)) {
      const left = this.broken(move.make());
      if (!left.length) return this.closest(move);
      const gone = [...wrong].filter(r => !left.some(v => v.rule === r));
      if (gone.length) { helpful.push([move, left]); gone.forEach(r => cured.add(r)); }
      if (this.tried > SINGLES) break;
    }
    const partial = ["PARAMS", "UNKNOWN_PARAMS", `TYPES_${this.target.name}`].some(r => wrong.has(`${this.op.op}.${r}`));
    return partial || cured.size === wrong.size ? this.pair(helpful) : null;
  }

  pair(helpful) {
    let best = null;
    const alike = new Map();
    this.tried = 0;
    for (const [first, left] of helpful) {
      const key = left.map(v => v.rule).join();
      alike.set(key, (alike.get(key) ?? 0) + 1);
      if (alike.get(key) > ALIKE) continue;
      for (const second of this.moves(first.make(), left)) {
        const entries = first.entries + second.entries;
        if (this.tried > PAIRS || (best && entries >= best[0])) break;
        if (!this.broken(second.make()).length) best = [entries, second];
      }
      if (this.tried > PAIRS || (best && best[0] <= 2)) break;
    }
    return best && this.closest(best[1]);
  }

  /* Bisects from the accepted number towards the refused one. */
  closest(move) {
    if (!move.between) return move.make();
    let [refused, accepted, make] = move.between, best = move.make();
    while (Math.abs(refused - accepted) > 1) {
      const half = Math.floor((refused + accepted) / 2), config = make(half);
      if (this.broken(config).length) refused = half; else [accepted, best] = [half, config];
    }
    return best;
  }

  reshaped(config) {
    let tried = 0;
    for (const step of [merged, widened]) {
      let level = [config];
      for (let n = 0; n < 4; n++) {
        level = unique(level.flatMap(c => [...step(c)]));
        for (const made of level) {
          const candidate = this.followed(made, config);
          if (candidate && !this.broken(candidate).length) return candidate;
          if (++tried > 200) return null;
        }
      }
    }
    return null;
  }

  /* An accepted example with as many parts of the refused config as the validator takes: all, inputs or parameters, then one after the other. */
  rebuilt(config) {
    const distance = c => changes(config, c, this.op).length, makes = this.op.examples.map(read).filter(e => !this.broken(e).length);
    const given = slotNames(config.inputs, this.op.inputs);
    const best = makes.map(example => {
      let made = { ...example, inputs: example.inputs.map((t, i) => ({ ...t, name: slotNames(example.inputs, this.op.inputs)[i] })) };
      const better = candidate => {
        const shapes = this.shapes(candidate), outputs = candidate.outputs.map((t, i) => shapes?.[i] ? { ...t, shape: shapes[i] } : t), next = { ...candidate, outputs };
        if (distance(next) < distance(made) && !this.broken(next).length) made = next;
      };
      const inputs = config.inputs.map((t, i) => ({ ...t, name: given[i] })), outputs = made.outputs.map((t, i) => config.outputs[i] && config.outputs[i].type !== "NULL" ? { ...config.outputs[i], name: t.name } : t);
      for (const part of [{ inputs, params: config.params, outputs }, { inputs, params: config.params }, { inputs, outputs }, { inputs }, { params: config.params }, { outputs }]) better({ ...made, ...part });
      for (const name of new Set([...config.params, ...made.params].map(p => p.name))) {
        const was = config.params.find(p => p.name === name);
        better({ ...made, params: [...made.params.filter(p => p.name !== name), ...(was ? [was] : [])] });
      }
      for (const t of inputs) {
        const at = made.inputs.findIndex(u => u.name === t.name);
        if (at < 0) { if (t.type !== "NULL") better({ ...made, inputs: [...made.inputs, t] }); continue; }
        for (const fresh of [t, { ...made.inputs[at], shape: t.shape }, { ...t, shape: made.inputs[at].shape }, { ...made.inputs[at], dtype: t.dtype, quant: t.quant }, { ...made.inputs[at], type: t.type }])
          if (fresh.type !== "NULL") better({ ...made, inputs: made.inputs.map((u, i) => i === at ? fresh : u) });
      }
      config.outputs.forEach((t, i) => { if (made.outputs[i] && t.type !== "NULL") for (const fresh of [{ ...t, shape: made.outputs[i].shape }, { ...made.outputs[i], type: t.type }]) better({ ...made, outputs: made.outputs.map((u, k) => k === i ? { ...fresh, name: u.name } : u) }); });
      return made;
    }).sort((a, b) => distance(a) - distance(b))[0];
    return best ?? null;
  }

  /* `made` with inferred outputs; null if they have another number of elements. */
  followed(made, config) {
    const shapes = this.shapes(made);
    if (!shapes) return null;
    const outputs = config.outputs.map((t, i) => t.type === "NULL" ? t : shapes[i] && size(shapes[i]) === size(t.shape) ? { ...t, shape: shapes[i] } : null);
    return outputs.every(Boolean) ? { ...made, outputs } : null;
  }

  /* The inferred shape for each output tensor of the config; null if they do not follow. */
  shapes(config) {
    const found = this.validator.infer(config, this.target);
    if (!found) return null;
    const slots = this.op.outputs, many = found.length - slots.length + 1, of = {};
    let at = 0;
    for (const s of slots) { of[s.name] = found.slice(at, at + (s.variadic ? many : 1)); at += s.variadic ? many : 1; }
    const places = {};
    return slotNames(config.outputs, slots).map(name => { const slot = name.split("[")[0], i = places[slot] ?? 0; places[slot] = i + 1; return (of[slot] ?? [])[i] ?? null; });
  }

  /* Changes that may cure `broken`, the smallest first. */
  moves(config, broken) {
    const rules = broken.map(v => v.rule.slice(v.rule.indexOf(".") + 1)), got = new Set(broken.flatMap(v => [...v.got.matchAll(/(?:^|, )([A-Za-z_]\w*)/g)].map(m => m[1])));
    if (rules.some(r => r === "INPUTS" || r === "OUTPUTS" || r.startsWith("RANK_"))) return [];
    const key = m => [m.entries, [...m.names].some(n => got.has(n)) ? 0 : 1, m.kind, ...m.distance], sorted = list => list.map(m => [key(m), m]).sort((a, b) => less(a[0], b[0])).map(p => p[1]);
    if (rules.some(r => r === "PARAMS" || r === "UNKNOWN_PARAMS")) return sorted([...this.params(config, got)]);
    const levels = this.levels(config);
    if (rules.includes(`TYPES_${this.target.name}`)) return levels.flatMap(sorted);
    const others = [...this.outputShapes(config), ...this.encodings(config), ...this.constness(config), ...this.params(config, null)];
    if (broken.some(v => v.sentence.includes("sparse"))) others.push(...this.sparseness(config));
    const byCount = new Map();
    for (const m of [...others, ...levels.flat()]) byCount.set(m.entries, [...(byCount.get(m.entries) ?? []), m]);
    return [...byCount].sort((a, b) => a[0] - b[0]).flatMap(([, list]) => sorted(list));
  }

  _tensors(config) { return [...config.inputs, ...config.outputs]; }
  _names(config) { return [...slotNames(config.inputs, this.op.inputs), ...slotNames(config.outputs, this.op.outputs)].map(n => n.split("[")[0]); }
  _present(config) { return this._tensors(config).flatMap((t, i) => t.type === "NULL" ? [] : [i]); }
  _move(config, fresh, kind, distance) {
    const n = config.inputs.length, names = this._names(config);
    const make = () => { const all = this._tensors(config).map((t, i) => fresh[i] ?? t); return { ...config, inputs: all.slice(0, n), outputs: all.slice(n) }; };
    const places = Object.keys(fresh).map(Number);
    return { make, entries: places.length, kind, distance, names: new Set(places.map(i => names[i])), between: null };
  }

  *outputShapes(config) {
    const shapes = this.shapes(config), n = config.inputs.length, fresh = {};
    if (shapes) config.outputs.forEach((t, i) => { if (shapes[i] && t.type !== "NULL" && !same(shapes[i], t.shape)) fresh[n + i] = { ...t, shape: shapes[i] }; });
    if (Object.keys(fresh).length) yield this._move(config, fresh, SHAPE, [0]);
  }

  *encodings(config) {
    const tensors = this._tensors(config), present = this._present(config);
    for (const i of present) for (const [order, quant] of encodings(tensors[i]).entries()) yield this._move(config, { [i]: { ...tensors[i], quant } }, ENCODING, [order]);
    for (const [dtype, quant] of unique(present.filter(i => tensors[i].quant).map(i => [tensors[i].dtype, tensors[i].quant]))) {
      const others = present.filter(i => tensors[i].dtype === dtype && !same(tensors[i].quant, quant));
      for (const group of [...others.map(i => [i]), ...(others.length > 1 ? [others] : [])])
        yield this._move(config, Object.fromEntries(group.map(i => [i, { ...tensors[i], quant }])), ENCODING, [100]);
    }
  }

  *constness(config) {
    for (const [i, t] of config.inputs.entries()) if (t.type !== "NULL") {
      const type = t.type === "STATIC" ? "NATIVE" : "STATIC";
      yield this._move(config, { [i]: { ...t, type } }, i === 0 && type === "STATIC" ? UNLIKELY : STATIC, [0]);
    }
  }

  *sparseness(config) {
    const tensors = this._tensors(config);
    for (const i of this._present(config)) if (tensors[i].shape.length) yield this._move(config, { [i]: { ...tensors[i], sparse: tensors[i].sparse ? null : { specified: 1, dimensions: tensors[i].shape.length } } }, STATIC, [0]);
  }

  *params(config, only) {
    const given = new Map(config.params.map(p => [p.name, p])), known = new Map(this.op.params.map(p => [p.name, p])), tensors = this._tensors(config);
    const shapes = this._present(config).map(i => tensors[i].shape);
    const move = (name, now, distance, between = null) => {
      const make = p => { const at = config.params.findIndex(q => q.name === name), rest = config.params.filter(q => q.name !== name); if (p) rest.splice(at < 0 ? rest.length : at, 0, p); return { ...config, params: rest }; };
      return { make: () => make(now), entries: 1, kind: PARAM, distance, names: new Set([name]), between: between && [between[0], between[1], n => make(between[2](n))] };
    };
    for (const name of new Set([...given.keys(), ...known.keys()])) {
      if (only && !only.has(name)) continue;
      const was = given.get(name);
      if (!known.has(name)) { yield move(name, null, [1]); continue; }
      if (!was && !known.get(name).required) continue;
      const floats = [...new Set(config.params.filter(p => p.name !== name && typeof p.value === "number" && isFloat(DTYPE[p.dtype])).map(p => p.value))];
      for (const [param, distance, between] of fitting(was, known.get(name), shapes, floats)) yield move(name, param, distance, between);
    }
  }

  levels(config) {
    const names = this._names(config), tensors = this._tensors(config), present = this._present(config);
    return retyped(present.map(i => [names[i], tensors[i].dtype]), this.rows).map(level => level.map(([types, distance]) => {
      const fresh = {};
      present.forEach((i, k) => { const t = tensors[i]; if (types[k] !== t.dtype) fresh[i] = { ...t, dtype: types[k], quant: reencoded(t.quant, t.dtype, types[k]) }; });
      return this._move(config, fresh, TYPE, distance);
    }));
  }
}

/* -- what differs, in words */

const shownValue = v => Array.isArray(v) ? `[${v.map(shownValue).join(", ")}]` : String(v);
const cut = v => Array.isArray(v) ? v.length === 1 ? shownValue(v[0]) : v.length <= 4 ? shownValue(v) : `[${v.slice(0, 3).map(shownValue).join(", ")}, ... ${v.length}]` : v === null || v === undefined ? "none" : shownValue(v);
function changes(old, made, op) {
  const out = [];
  for (const group of ["inputs", "outputs"]) {
    const names = slotNames(old[group], op[group]), places = new Map(slotNames(made[group], op[group]).map((n, i) => [n, i]).filter(([, i]) => made[group][i].type !== "NULL"));
    old[group].forEach((a, i) => {
      const name = names[i], b = places.has(name) ? made[group][places.get(name)] : null;
      if (a.type === "NULL") return;
      if (!b) { out.push(`${name || `${group}[${i}]`} omitted`); return; }
      places.delete(name);
      if (a.dtype !== b.dtype) out.push(`${name} ${b.dtype} instead of ${a.dtype}`);
      if (!same(a.shape, b.shape)) out.push(a.shape.length !== b.shape.length && size(a.shape) === size(b.shape) ? `${name} reshaped to rank ${b.shape.length}, e.g. ${shownValue(b.shape)}` : `${name} of shape ${shownValue(b.shape)} instead of ${shownValue(a.shape)}`);
      if (a.type !== b.type) out.push(`${name} ${b.type} instead of ${a.type}`);
      if (!same(a.quant, b.quant)) out.push(`${name} ${encodingText(a.quant, b.quant)}`);
      if (!same(a.sparse, b.sparse)) out.push(`${name} ${b.sparse ? "sparse" : "dense"}`);
    });
    for (const [name, i] of places) out.push(`${name} ${made[group][i].dtype} ${shownValue(made[group][i].shape)} given`);
    if (group === "inputs") out.push(...paramChanges(old, made, op));
  }
  return out;
}
function encodingText(a, b) {
  if (!b) return "without encoding";
  const [was, now] = [a ? writtenQuant(a) : {}, writtenQuant(b)];
  if (!a) return "with " + Object.entries(now).map(([k, v]) => `${k} ${cut(v)}`).join(", ");
  return [...new Set([...Object.keys(now), ...Object.keys(was)])].filter(k => !same(now[k], was[k])).map(k => `${k} ${cut(now[k])} instead of ${cut(was[k])}`).join(", ");
}
function paramChanges(old, made, op) {
  const out = [], of = config => new Map(config.params.map(p => [p.name, p])), [before, after] = [of(old), of(made)];
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const [a, b] = [before.get(name), after.get(name)], slot = op.params.find(p => p.name === name);
    if (same(a, b)) continue;
    const word = p => p.shape === null ? Object.entries(slot?.enum ?? {}).find(([, v]) => v === Number(p.value))?.[0] ?? shownValue(p.value)
      : p.shape.length === 2 ? shownValue(Array.from({ length: p.shape[0] }, (_, r) => p.value.slice(r * p.shape[1], (r + 1) * p.shape[1]))) : shownValue(p.value);
    if (!a || !b) { out.push(b ? `${name} ${word(b)} given` : `${name} omitted`); continue; }
    out.push(a.dtype === b.dtype ? `${name} ${word(b)} instead of ${word(a)}` : `${name} ${b.dtype} ${word(b)} instead of ${a.dtype} ${word(a)}`);
  }
  return out;
}
