"use strict";
const $ = id => document.getElementById(id);
/* An element; names of attributes with "-" or without a property of the same name are attributes, the rest properties. */
const el = (tag, props = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [k, v] of Object.entries(props)) if (k.includes("-") || k === "role" || k === "scope") made.setAttribute(k, v); else made[k] = v;
  made.append(...children);
  return made;
};
/* A name in pieces that a line may be broken between. */
const broken = name => String(name).split(/(?<=[_\/(]|(?<!\d)[.,]|[.,](?!\d))(?=.)/).flatMap((piece, i) => i ? [document.createElement("wbr"), piece] : [piece]);
/* A table whose lines are arrays of texts or elements; below a width each line is a card. */
const table = (head, lines, numbers = []) => el("table", { className: "cards" },
  el("thead", {}, el("tr", {}, ...head.map((h, i) => el("th", { scope: "col", className: numbers.includes(i) ? "n" : "", textContent: h })))),
  el("tbody", {}, ...lines.map(line => el("tr", {}, ...line.map((c, i) => el("td", { "data-l": head[i], className: numbers.includes(i) ? "n" : "" }, ...(c instanceof Node ? [c] : broken(c))))))));
