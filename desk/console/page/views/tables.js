// All tables: search, states, sorting. A thousand are as quick as ten, because only a page of them is drawn.

import { h } from "../core/dom.js";
import { known, readTables } from "../core/known.js";
import { go, here, to } from "../core/places.js";
import { count, counted, duration, headroomText, rate, shortener, STATES, WORST_FIRST } from "../core/words.js";
import { empty, heading, headroomBar, stateTag } from "../parts/bits.js";
import { grid, paged } from "../parts/grid.js";

const SORTS = {
  state: { of: (table) => WORST_FIRST.indexOf(table.state), down: false },
  table: { of: (table) => table.table.toLowerCase(), down: false },
  lag: { of: (table) => table.lag?.seconds ?? -1, down: true },
  waiting: { of: (table) => table.lag?.changes ?? -1, down: true },
  rate: { of: (table) => table.changes_per_second ?? -1, down: true },
  headroom: { of: (table) => table.headroom_seconds ?? Infinity, down: false },
  owner: { of: (table) => table.owner ?? "", down: false },
  topic: { of: (table) => table.topic ?? "", down: false },
};

export function open() {
  return {
    title: "Tables",
    live: true,
    async refresh() {
      await readTables();
    },
    draw: () => (known.tables ? page([...known.tables.values()]) : null),
  };
}

function page(tables) {
  const { query } = here();
  const chosen = { q: query.get("q") ?? "", state: query.get("state") ?? "", sort: query.get("sort") ?? "state", down: query.get("down"), page: Number(query.get("page")) };
  const address = (changed) => to(["tables"], { ...chosen, page: "", sort: chosen.sort === "state" ? "" : chosen.sort, ...changed });
  const found = matching(tables, chosen);
  const { shown, controls } = paged(found, chosen.page, (number) => address({ page: number }), "tables");
  return [
    heading("Tables", h("span", { class: "muted" }, found.length === tables.length ? counted(tables.length, "table") : `${count(found.length)} of ${counted(tables.length, "table")}`)),
    h("div", { class: "toolbar", key: "toolbar", role: "search" },
      h("label", { class: "unseen", for: "table-search" }, "Search tables"),
      h("input", { id: "table-search", type: "search", class: "search", placeholder: "Search a name, an owner or a topic", title: "The key / goes here", value: chosen.q, autocomplete: "off",
        on: { input: (event) => go(address({ q: event.target.value }), { replace: true }) } }),
      chips(tables, chosen, address)),
    shown.length ? h("div", { key: "grid" }, tableGrid(shown, chosen, address)) : empty("No table is like that.", h("a", { href: "#/tables" }, "Show all")),
    controls,
  ];
}

function chips(tables, chosen, address) {
  const counts = new Map();
  for (const table of tables) counts.set(table.state, (counts.get(table.state) ?? 0) + 1);
  return h("div", { class: "chips", role: "group", "aria-label": "By state" },
    h("a", { class: "chip", key: "", href: address({ state: "" }), "aria-current": chosen.state === "" ? "true" : null }, `all ${count(tables.length)}`),
    WORST_FIRST.filter((state) => counts.has(state)).map((state) =>
      h("a", { class: `chip chip-${STATES[state].tone}`, key: state, href: address({ state }), "aria-current": chosen.state === state ? "true" : null }, `${state} ${count(counts.get(state))}`)));
}

function matching(tables, chosen) {
  const words = chosen.q.toLowerCase().split(/\s+/).filter(Boolean);
  const sort = SORTS[chosen.sort] ?? SORTS.state;
  const down = chosen.down === null || chosen.down === "" ? sort.down : chosen.down === "1";
  const found = tables.filter((table) => {
    if (chosen.state && table.state !== chosen.state) return false;
    const text = `${table.table} ${table.owner ?? ""} ${table.topic ?? ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const valued = found.map((table, at) => ({ table, at, value: sort.of(table) }));
  valued.sort((one, other) => {
    const order = one.value < other.value ? -1 : one.value > other.value ? 1 : 0;
    return (down ? -order : order) || one.at - other.at;
  });
  return valued.map((each) => each.table);
}

function tableGrid(tables, chosen, address) {
  const sort = SORTS[chosen.sort] ?? SORTS.state;
  const down = chosen.down === null || chosen.down === "" ? sort.down : chosen.down === "1";
  const change = (by) => go(address({ sort: by === "state" ? "" : by, down: by === chosen.sort ? (down ? "0" : "1") : "" }), { replace: true });
  const short = shortener(tables.map((table) => table.topic));
  const columns = [
    { name: "Table", sort: "table", cell: (table) => h("a", { class: "name", title: table.table, href: to(["tables", table.table]) }, table.table) },
    { name: "State", sort: "state", cell: (table) => [stateTag(table.state), table.snapshot && table.snapshot.state === "running" ? h("span", { class: "muted" }, " snapshot") : null] },
    { name: "Lag", sort: "lag", number: true, cell: (table) => duration(table.lag?.seconds) },
    { name: "Waiting", sort: "waiting", number: true, cell: (table) => (table.lag ? `${count(table.lag.changes)}${table.lag.at_least ? "+" : ""}` : "–") },
    { name: "Rate", sort: "rate", number: true, cell: (table) => rate(table.changes_per_second) },
    { name: "Headroom", sort: "headroom", cell: headroom },
    { name: "Owner", less: "lesser", sort: "owner", cell: (table) => h("span", { class: "mono short", title: table.owner }, table.owner ?? "–") },
    { name: "Topic", less: "less", sort: "topic", cell: (table) => h("span", { class: "mono short", title: table.topic }, short(table.topic)) },
  ];
  return grid("Tables, their state, lag and headroom", columns, tables, { key: (table) => table.table, sorted: { by: chosen.sort, down, change } });
}

function headroom(table) {
  if (table.headroom_seconds === null || table.headroom_seconds === undefined) return "–";
  return table.retention_seconds ? headroomBar(table.headroom_seconds, table.retention_seconds) : headroomText(table.headroom_seconds);
}
