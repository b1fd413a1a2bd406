// The configuration: the tables that are read and the outputs, each added, changed or removed with the difference shown first; and undone.

import { get } from "../core/api.js";
import { h } from "../core/dom.js";
import { count, counted } from "../core/words.js";
import { button, copyButton, empty, heading, notice, section, tag, when } from "../parts/bits.js";
import { grid } from "../parts/grid.js";
import { askRemoval, askUndo, editOutput, editSource } from "./configuration_orders.js";
import { whyNot } from "./table.js";

export function open(_, context) {
  const state = { configuration: null, sources: [], outputs: [] };
  return {
    title: "Configuration",
    live: false,
    async refresh() {
      const [configuration, sources, outputs] = await Promise.all([get("configuration"), get("sources"), get("outputs")]);
      Object.assign(state, { configuration, sources: sources.items, outputs: outputs.items });
    },
    draw: () => (state.configuration ? page(state, context) : null),
  };
}

function page(state, context) {
  const { configuration } = state;
  const why = whyNot() || (configuration.writable ? "" : configuration.why_not || "The file cannot be written.");
  const [last] = configuration.revisions;
  return [
    heading("Configuration", h("span", { class: "mono muted" }, configuration.place)),
    why ? notice("info", "It can be read here, not changed", why, { key: "why" }) : null,
    sources(state, why, context),
    outputs(state, why, context),
    section("What was changed",
      last ? [
        h("p", { class: "actions" }, button("Undo the last change", () => askUndo(configuration, last, context.refresh), { why })),
        grid("The latest changes", [
          { name: "When", cell: (revision) => when(revision.at) }, { name: "By", cell: (revision) => revision.by },
          { name: "What", wide: true, cell: (revision) => revision.what }, { name: "Reason", wide: true, cell: (revision) => revision.reason ?? "–" },
        ], configuration.revisions, { key: (revision) => `${revision.revision} ${revision.at}` })] : empty("Nothing was changed through this console.")),
    section("The file",
      h("p", { class: "body-head" }, h("span", { class: "muted" }, `revision ${configuration.revision}; secrets come from the environment`), copyButton(configuration.text, "the configuration")),
      h("pre", { class: "body", tabindex: "0", role: "region", "aria-label": "The file" }, configuration.text)),
  ];
}

function sources(state, why, context) {
  const revision = state.configuration.revision;
  const done = context.refresh;
  const columns = [
    { name: "Entry", cell: (source) => h("span", { class: "mono" }, source.name) },
    { name: "Kind", tight: true, cell: (source) => tag(source.kind, "plain") },
    { name: "Means", wide: true, cell: (source) => (source.kind === "table" ? "this table" : matches(source)) },
    { name: "Settings", wide: true, cell: (source) => settings(source.settings) },
    { name: "Actions", cell: (source) => h("span", { class: "actions" },
      source.kind === "exclusion" ? null : button("Change", () => editSource(source, revision, done), { look: "small", why, title: `Change ${source.name}` }),
      button("Remove", () => askRemoval("sources", source.name, revision, done), { look: "small", why, title: `Remove ${source.name}` })) },
  ];
  return section("Sources",
    h("p", { class: "actions" }, button("Add a table", () => editSource(null, revision, done), { look: "primary", why })),
    state.sources.length ? grid("Tables that are read", columns, state.sources, { key: (source) => source.name }) : empty("No table is read."));
}

function matches(source) {
  if (!source.matches.length) return source.kind === "exclusion" ? "what it names is left out" : "no table now";
  const shown = source.matches.slice(0, 4).join(", ");
  return source.matches.length > 4 ? `${counted(source.matches.length, "table")}: ${shown}, …` : shown;
}

function outputs(state, why, context) {
  const revision = state.configuration.revision;
  const done = context.refresh;
  const columns = [
    { name: "Output", tight: true, cell: (output) => h("span", { class: "mono" }, output.name) },
    { name: "Type", tight: true, cell: (output) => h("span", { class: "mono" }, output.type) },
    { name: "Settings", wide: true, cell: (output) => settings(output.settings) },
    { name: "Routes", number: true, cell: (output) => count(output.routes.length) },
    { name: "Actions", cell: (output) => h("span", { class: "actions" },
      button("Change", () => editOutput(output, revision, done), { look: "small", why, title: `Change ${output.name}` }),
      output.name === "default" ? null : button("Remove", () => askRemoval("outputs", output.name, revision, done), { look: "small", why, title: `Remove ${output.name}` })) },
  ];
  return section("Outputs",
    h("p", { class: "actions" }, button("Add an output", () => editOutput(null, revision, done), { look: "primary", why })),
    grid("Where changes are sent", columns, state.outputs, { key: (output) => output.name }));
}

function settings(given) {
  const pairs = Object.entries(given);
  if (!pairs.length) return "–";
  return h("span", { class: "settings" }, pairs.map(([name, value]) =>
    h("code", { key: name }, `${name} = ${JSON.stringify(value)}`)));
}
