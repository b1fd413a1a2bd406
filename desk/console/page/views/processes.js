// The processes that this console watches: ingesters and routers, whether they are ready, what keeps them, what they have in work.

import { h } from "../core/dom.js";
import { known } from "../core/known.js";
import { bytes, count, counted } from "../core/words.js";
import { bar, empty, facts, heading, tag } from "../parts/bits.js";

export function open() {
  return {
    title: "Processes",
    live: true,
    async refresh() {}, // all of it is in the overview
    draw: () => (known.overview ? page(known.overview.processes) : null),
  };
}

function page(processes) {
  const ready = processes.filter(isReady).length;
  return [
    heading("Processes", h("span", { class: "muted" }, `${ready} of ${processes.length} ready`)),
    processes.length ? h("ul", { class: "cards", key: "cards" }, processes.map(card))
      : empty("None is watched. Give the addresses of their health ports, and this page shows whether they are ready."),
  ];
}

function isReady(process) {
  return process.reached && process.ready !== false && process.alive !== false;
}

function card(process) {
  const tone = isReady(process) ? "ok" : process.reached ? "warn" : "bad";
  const state = !process.reached ? "not reached" : process.alive === false ? "hangs" : process.ready === false ? "not ready" : "ready";
  const behind = Object.entries(process.behind ?? {});
  return h("li", { class: "panel", key: process.address },
    h("div", { class: "card-head" }, h("h2", {}, process.stage === "unknown" ? "process" : process.stage), tag(state, tone)),
    h("p", { class: "mono muted" }, process.address),
    process.text ? h("p", { class: `said tone-${tone}` }, process.text) : null,
    facts([
      ["Tables", process.tables === null || process.tables === undefined ? null : count(process.tables)],
      ["Slots", process.slots ? bar((process.slots_busy ?? 0) / process.slots, `${count(process.slots_busy)} of ${count(process.slots)} busy`, "info") : null],
      ["Sessions in work", process.sessions === null || process.sessions === undefined ? null : count(process.sessions)],
      ["Parked", process.parked ? h("span", { class: "tone-warn" }, counted(process.parked, "session")) : process.parked === 0 ? "0" : null],
      ["Memory", process.memory_bytes ? bytes(process.memory_bytes) : null],
      ...behind.map(([output, sessions]) => [`Behind: ${output}`, h("span", { class: "tone-warn" }, counted(sessions, "session"))]),
    ]));
}
