// The audit log: who changed what, through what, why, and what came of it. The newest first.

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { here, to } from "../core/places.js";
import { button, empty, heading, tag, when } from "../parts/bits.js";
import { grid } from "../parts/grid.js";

const TONES = { begun: "info", done: "ok", refused: "warn", failed: "bad" };

export function open(_, context) {
  const state = { page: null, shown: "" };
  const after = () => here().query.get("after") ?? "";
  return {
    title: "Audit log",
    live: false,
    async refresh() {
      const asked = after();
      state.page = await get("audit", { after: asked, most: 100 });
      state.shown = asked;
    },
    stale: () => after() !== state.shown,
    draw: () => (state.page ? page(state.page, after(), context) : null),
  };
}

function page(found, after, context) {
  return [
    heading("Audit log", button("Look again", context.refresh, { look: "small" })),
    h("p", { class: "muted", key: "note" }, "Each change has a line before it is made, and one with what came of it. The log cannot be switched off."),
    found.items.length ? h("div", { key: "grid" }, lines(found.items)) : empty("Nothing was changed through this console."),
    h("nav", { class: "pager", key: "pager", "aria-label": "Pages" },
      after ? h("a", { class: "button small", href: to(["audit"]) }, "Newest") : null,
      found.next ? h("a", { class: "button small", href: to(["audit"], { after: found.next }) }, "Older") : null),
  ];
}

function lines(items) {
  const columns = [
    { name: "When", cell: (line) => when(line.at) },
    { name: "Who", cell: (line) => [line.who, h("span", { class: "muted" }, ` ${line.through}${line.address ? `, ${line.address}` : ""}`)] },
    { name: "Action", cell: (line) => h("span", { class: "mono" }, line.action) },
    { name: "Target", cell: (line) => h("span", { class: "mono" }, line.target) },
    { name: "Outcome", cell: (line) => tag(line.outcome, TONES[line.outcome]) },
    { name: "Reason and details", wide: true, cell: (line) => [line.reason ? h("p", {}, `“${line.reason}”`) : null, details(line)] },
  ];
  return grid("Changes, the newest first", columns, items, { key: (line) => `${line.request} ${line.outcome} ${line.action} ${line.target}` });
}

function details(line) {
  const pairs = Object.entries(line.details).filter(([, value]) => value !== null);
  return h("details", {}, h("summary", {}, "Details"), h("dl", { class: "facts" },
    [["request", line.request], ...pairs].map(([name, value]) =>
      h("div", { key: name }, h("dt", {}, name), h("dd", { class: "mono" }, typeof value === "string" ? value : JSON.stringify(value))))));
}
