// Tables of the page: proper headers, sorting by a button in the header, and pages of rows, so that a thousand rows cost what a hundred do.
//
// On a phone each row is a card: the roles are given, because a table that is laid out as blocks would lose them.

import { h } from "../core/dom.js";
import { count } from "../core/words.js";
import { icon } from "./icons.js";

export const ROWS = 100;

/** `columns`: `{ name, cell(row), number?, sort?, wide?, tight?, less? }`, `tight`: never broken, `less`: where it is left out of narrow windows; `rows`: with `key(row)`; `sorted`: `{ by, down, change(by) }`. */
export function grid(caption, columns, rows, { key, sorted = null, dense = true, head = 0 } = {}) {
  return h("table", { class: `grid${dense ? " dense" : ""}`, role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((column) => header(column, sorted)))),
    h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { key: key(row), role: "row" },
      columns.map((column, at) => cell(column, row, at === head))))));
}

function header(column, sorted) {
  const look = [column.number ? "number" : "", column.less ?? ""].join(" ").trim() || null;
  if (!sorted || !column.sort) return h("th", { scope: "col", role: "columnheader", class: look }, column.name);
  const active = sorted.by === column.sort;
  return h("th", { scope: "col", role: "columnheader", class: look, "aria-sort": active ? (sorted.down ? "descending" : "ascending") : null },
    h("button", { type: "button", class: "sort", on: { click: () => sorted.change(column.sort) } },
      column.name, active ? icon(sorted.down ? "down" : "up", "plain") : null));
}

function cell(column, row, heads) {
  const look = [column.number ? "number" : "", column.wide ? "wide" : "", column.tight ? "tight" : "", column.less ?? "", heads ? "row-head" : ""].join(" ").trim();
  const inside = column.cell(row);
  if (heads) return h("th", { scope: "row", role: "rowheader", class: look || null }, inside);
  return h("td", { role: "cell", class: look || null, "data-label": column.name || null }, inside);
}

/** Which rows of a longer list are shown, and the way to the others. */
export function paged(rows, page, address, noun = "rows") {
  const pages = Math.max(1, Math.ceil(rows.length / ROWS));
  const at = Math.min(Math.max(1, page || 1), pages);
  const shown = rows.slice((at - 1) * ROWS, at * ROWS);
  const first = rows.length ? (at - 1) * ROWS + 1 : 0;
  const link = (text, number, possible) => (possible ? h("a", { class: "button small", href: address(number) }, text) : null);
  const controls = pages === 1 ? null : h("nav", { class: "pager", "aria-label": "Pages" },
    link("Previous", at - 1, at > 1),
    h("span", { class: "muted" }, `${count(first)} to ${count(first + shown.length - 1)} of ${count(rows.length)} ${noun}`),
    link("Next", at + 1, at < pages));
  return { shown, controls };
}
