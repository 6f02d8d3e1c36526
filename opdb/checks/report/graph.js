  /* The graph: a list of boxes in the program's order, folded by module, with the edges in an SVG in front of them. */
  const data = JSON.parse($("data").textContent), texts = data.texts;
  const rows = data.rows.map(values => {
    const r = Object.fromEntries(data.fields.map((f, i) => [f, values[i]]));
    for (const f of ["module", "target", "ops", "line", "file", "types"]) r[f] = texts[r[f]];
    for (const f of ["told", "notes"]) r[f] = r[f].map(i => texts[i]);
    return { ...r, verdict: data.verdicts[r.verdict] };
  });
  const where = r => r.verdict === "supported" ? data.place + (r.graph ? ", graph " + r.graph : "") : "CPU: " + r.verdict;
  /* The class of what a node computes in: integers of 8 or 16 bits, or floats. */
  const bits = r => /^[us]q8/.test(r.types) ? "bits8" : /^[us]q16/.test(r.types) ? "bits16" : "floats";
  const side = r => r.verdict === "supported" ? r.graph : 0;
  const plural = (n, word) => n + " " + word + (n === 1 ? "" : "s");
  const grow = ([name, ...children]) => {
    const made = children.map(c => typeof c === "number" ? c : grow(c));
    const nodes = made.flatMap(c => typeof c === "number" ? [c] : c.nodes);
    return { name, children: made, nodes, left: nodes.filter(i => rows[i].verdict !== "supported").length, graphs: [...new Set(nodes.map(i => side(rows[i])).filter(Boolean))].sort((a, b) => a - b), open: false };
  };
  const tree = grow(data.tree), folds = (f = tree) => f.children.filter(c => typeof c !== "number").flatMap(c => [c, ...folds(c)]);
  const SVG = "http://www.w3.org/2000/svg";
  const svg = (tag, props, ...children) => { const e = document.createElementNS(SVG, tag); for (const [k, v] of Object.entries(props)) e.setAttribute(k, v); e.append(...children); return e; };

  const said = f => {
    const on = f.nodes.length - f.left, graphs = f.graphs.length > 3 ? plural(f.graphs.length, "graph") : f.graphs.length ? (f.graphs.length > 1 ? "graphs " : "graph ") + f.graphs.join(", ") : "";
    return plural(f.nodes.length, "node") + ": " + [on ? on + " on " + data.place + (graphs ? " (" + graphs + ")" : "") : "", f.left ? f.left + " on the CPU" : ""].filter(Boolean).join(", ");
  };
  const share = f => svg("svg", { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "on", width: 100 * (1 - f.left / f.nodes.length), height: 10 }), svg("rect", { class: "off", x: 100 * (1 - f.left / f.nodes.length), width: 100 * f.left / f.nodes.length, height: 10 }));
  const few = ops => ops.length < 5 ? ops.join(", ") : ops.slice(0, 3).join(", ") + " and " + (ops.length - 3) + " more";
  let items = [];  /* what is in sight, in order: the element, and the nodes that it stands for */
  const node = i => {
    const r = rows[i], made = el("li", { className: "box " + r.verdict }, el("span", { className: "place", textContent: where(r) }), el("a", { href: "#node-" + r.node }, ...broken(r.node)),
      ...(r.types ? [el("span", { className: "types " + bits(r), textContent: r.types })] : []),
      el("span", { className: "quiet" }, ...broken(r.target + (r.ops && r.verdict === "supported" ? " \u2192 " + few(r.ops.split(" ")) : ""))));
    items.push({ element: made, nodes: [i] });
    return made;
  };
  const fold = f => {
    const button = el("button", { type: "button", "aria-expanded": String(f.open) }, ...broken(f.name));
    button.onclick = () => { f.open = !f.open; draw(); const again = document.querySelector(`[data-fold="${folds().indexOf(f)}"] button`); again.focus(); };
    const head = el("div", { className: "head" }, button, share(f), el("span", { className: "quiet", textContent: said(f) }));
    const made = el("li", { className: "fold", "data-fold": String(folds().indexOf(f)) }, head);
    if (f.open) made.append(inside(f)); else items.push({ element: made, nodes: f.nodes });
    return made;
  };
  const inside = f => el("ol", {}, ...f.children.map(c => typeof c === "number" ? node(c) : fold(c)));

  const graph = $("graph"), LANE = 8;
  /* Edges between what is in sight: of each source one line, from which its readers branch off. */
  function nets() {
    const shown = new Map(items.flatMap((item, k) => item.nodes.map(i => [i, k]))), found = new Map();
    rows.forEach((r, i) => r.reads.forEach(s => {
      const from = shown.get(s), to = shown.get(i);
      if (from === to) return;
      if (!found.has(from)) found.set(from, new Map());
      found.get(from).set(to, found.get(from).get(to) || side(rows[s]) !== side(r));
    }));
    return [...found].sort((a, b) => a[0] - b[0]).map(([from, to]) => ({ from, to: [...to].sort((a, b) => a[0] - b[0]) }));
  }
  const direct = (a, b) => b === a + 1 && items[a].element.parentNode === items[b].element.parentNode;
  function lines() {
    const most = graph.clientWidth < 600 ? 5 : 14, free = [], all = [];
    for (const net of nets()) {
      const far = net.to.filter(([to]) => !direct(net.from, to)), end = far.length ? far[far.length - 1][0] : 0;
      let lane = -1;
      if (far.length) { lane = free.findIndex(e => e <= net.from); if (lane < 0) lane = free.length; free[lane] = end; }
      all.push({ ...net, far, lane: Math.min(lane, most - 1) });
    }
    graph.firstChild.style.paddingLeft = Math.min(free.length, most) * LANE + 14 + "px";
    return all;
  }
  function edges() {
    graph.querySelector(":scope > svg")?.remove();
    const all = lines(), base = graph.getBoundingClientRect(), boxes = items.map(i => i.element.getBoundingClientRect());
    const gutter = parseFloat(graph.firstChild.style.paddingLeft) - 10, paths = [];
    const path = (d, moves, arrow = true) => paths.push(svg("path", { d, class: moves ? "moves" : "", ...(arrow ? { "marker-end": "url(#arrow)" } : {}) }));
    for (const { from, to, far, lane } of all) {
      const a = boxes[from], ax = a.left - base.left, ay = a.bottom - base.top;
      for (const [k, moves] of to) if (direct(from, k)) path(`M${ax + 22} ${ay}V${boxes[k].top - base.top - 2}`, moves);
      if (!far.length) continue;
      const x = gutter - 4 - lane * LANE, y = ay - 7;
      far.forEach(([k, moves], i) => {
        const b = boxes[k], by = b.top - base.top + 9, last = i ? boxes[far[i - 1][0]].top - base.top + 9 : y;
        path(i ? `M${x} ${last}V${by - 4}q0 4 4 4H${b.left - base.left - 2}` : `M${ax} ${y}H${x + 4}q-4 0 -4 4V${by - 4}q0 4 4 4H${b.left - base.left - 2}`, moves);
      });
    }
    graph.append(svg("svg", { "aria-hidden": "true" }, svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0L6 3L0 6Z" }))), ...paths));
  }
  function draw() {
    items = [];
    graph.replaceChildren(inside(tree));
    edges();
  }
  const setAll = want => { for (const f of folds()) f.open = want(f); draw(); };
  $("fold").onclick = () => setAll(() => false);
  $("open").onclick = () => setAll(() => true);
  $("cpu").onclick = () => setAll(f => f.left > 0);
  $("cpu").hidden = !tree.left;
  $("legend").append(...[["supported", data.place + ", graph 1", "runs on " + data.place + ", in the QNN graph of that number"], ["rejected", "CPU: rejected", "QNN has an op for it, but not with these types, shapes or values"], ["host", "CPU: host", "QNN has no op for it that opdb knows"]].map(
    ([kind, words, meaning]) => el("li", { className: kind }, el("span", { className: "place", textContent: words }), meaning)),
    ...(rows.some(r => r.types) ? [["bits8", "8 bits"], ["bits16", "16 bits"], ["floats", "floats"]].map(([kind, words]) => el("li", {}, el("span", { className: "types " + kind, textContent: words }), "what it computes in")) : []),
    el("li", {}, svg("svg", { width: 34, height: 8, "aria-hidden": "true" }, svg("path", { d: "M0 4H34", stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": "5 3" })), "data moves between QNN graphs, or to or from the CPU"));
  /* Folds are opened from above as long as about so many boxes are in sight. */
  let room = 24 - tree.children.length;
  for (let level = folds().filter(f => tree.children.includes(f)); level.length;) {
    const next = level.filter(f => (room -= f.children.length - 1) >= 0 && (f.open = true));
    level = next.flatMap(f => f.children.filter(c => typeof c !== "number"));
  }
  draw();
  let width = graph.clientWidth;
  new ResizeObserver(() => { if (graph.clientWidth !== width) { width = graph.clientWidth; edges(); } }).observe(graph);
