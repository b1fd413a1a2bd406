// Changes of the configuration: a form, then the difference as it would be written, then the order. The file is written only after that.

import { part, post, put, remove } from "../core/api.js";
import { h } from "../core/dom.js";
import { button, notice } from "../parts/bits.js";
import { endings, field, openDialog, reasonField } from "../parts/dialog.js";
import { tell } from "../parts/notes.js";

const TYPES = ["azure_service_bus", "azure_event_hubs", "kafka", "nats", "webhook", "postgres", "elasticsearch", "file"];

/** Add (null) or change an entry of `ingester.tables`. */
export function editSource(source, revision, done) {
  const form = formOf("sources", source);
  return editing(source ? `Change ${source.name}` : "Add a table", form, revision, done, (dialog) => [
    source ? null : nameField(form, dialog, "Table, pattern or exclusion", "dbo.Persons, sales.*, or !sales.Temp*"),
    rows(form, dialog, "What is set for it beside the defaults, such as poll_interval."),
  ]);
}

/** Add (null) or change an output. */
export function editOutput(output, revision, done) {
  const form = formOf("outputs", output);
  form.type = output?.type ?? "webhook";
  return editing(output ? `Change ${output.name}` : "Add an output", form, revision, done, (dialog) => [
    output ? null : nameField(form, dialog, "Label", "A name of your own, such as search"),
    output ? h("p", { key: "type" }, "Type: ", h("code", {}, output.type)) : field("Type",
      h("select", { value: form.type, on: { change: (event) => stale(form, dialog, () => (form.type = event.target.value)) } },
        TYPES.map((type) => h("option", { value: type, selected: type === form.type }, type)))),
    rows(form, dialog, "A secret is given as {\"env\": \"NAME\"}: its value never enters the file."),
  ]);
}

function formOf(kind, existing) {
  const pairs = Object.entries(existing?.settings ?? {}).map(([name, value]) => ({ id: crypto.randomUUID?.() ?? `${Math.random()}`, name, text: shown(value), had: true }));
  return { kind, isNew: !existing, name: existing?.name ?? "", pairs, gone: [], reason: "", edit: null };
}

/** What was looked at is no longer what would be done. */
function stale(form, dialog, change) {
  change();
  if (form.edit) {
    form.edit = null;
    dialog.redraw();
  }
}

function nameField(form, dialog, label, help) {
  return field(label, h("input", { type: "text", class: "mono", value: form.name, autocomplete: "off", spellcheck: "false", maxlength: 300,
    on: { input: (event) => stale(form, dialog, () => (form.name = event.target.value)) } }), help);
}

/** Settings as rows of a name and a value. */
function rows(form, dialog, help) {
  const input = (pair, name, label) => h("input", { type: "text", class: "mono", value: pair[name], "aria-label": label, autocomplete: "off", spellcheck: "false",
    readonly: name === "name" && pair.had, on: { input: (event) => stale(form, dialog, () => (pair[name] = event.target.value)) } });
  const drop = (pair) => {
    form.pairs = form.pairs.filter((each) => each !== pair);
    if (pair.had) form.gone.push(pair.name);
    form.edit = null;
    dialog.redraw();
  };
  return h("fieldset", { key: "settings" }, h("legend", {}, "Settings"), h("p", { class: "help" }, help),
    form.pairs.map((pair) => h("div", { class: "pair", key: pair.id },
      input(pair, "name", "Setting"), input(pair, "text", `Value of ${pair.name || "the new setting"}`),
      button("Remove", () => drop(pair), { look: "small", title: `Remove ${pair.name}` }))),
    button("Add a setting", () => {
      form.pairs.push({ id: `${Math.random()}`, name: "", text: "", had: false });
      dialog.redraw();
    }, { look: "small" }));
}

function shown(value) {
  return typeof value === "string" && !readsOtherwise(value) ? value : JSON.stringify(value);
}

function readsOtherwise(text) {
  return typeof read(text) !== "string";
}

/** `5`, `true`, `["a"]` and `{"env": "X"}` are what they look like; everything else is text. */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function orderOf(form, dry) {
  const settings = Object.fromEntries(form.gone.map((name) => [name, null]));
  for (const pair of form.pairs) if (pair.name.trim()) settings[pair.name.trim()] = read(pair.text);
  const order = { name: form.name.trim(), settings, dry_run: dry, reason: form.reason || null };
  return form.type ? { ...order, type: form.type } : order;
}

function editing(title, form, revision, done, fields) {
  const send = (dry) => (form.isNew
    ? post(form.kind, orderOf(form, dry), { revision })
    : put(`${form.kind}/${part(form.name)}`, orderOf(form, dry), { revision }));
  return openDialog(title, (dialog) => [fields(dialog), ...steps(form, dialog, send, done, "Write it")]);
}

/** Remove an entry or an output. */
export function askRemoval(kind, name, revision, done) {
  const form = { reason: "", edit: null };
  const send = (dry) => remove(`${kind}/${part(name)}`, { dry_run: dry, reason: form.reason || null }, { revision });
  return openDialog(`Remove ${name}?`, (dialog) => [
    h("p", { key: "text" }, kind === "sources" ? "Its changes are no longer read. Its offset is kept." : "Nothing is sent there any more."),
    ...steps(form, dialog, send, done, "Remove it")]);
}

/** Take the last change back. */
export function askUndo(configuration, last, done) {
  const form = { reason: "", edit: null };
  const send = (dry) => post("configuration/undo", { dry_run: dry, reason: form.reason || null }, { revision: configuration.revision });
  return openDialog("Undo the last change?", (dialog) => [
    h("p", { key: "text" }, `${last.what}, by ${last.by}.`), ...steps(form, dialog, send, done, "Undo it")]);
}

/** The difference, a reason, the order. */
function steps(form, dialog, send, done, does) {
  const edit = form.edit;
  return [
    edit ? h("div", { class: "outcome", key: "edit", role: "status" },
      h("h3", {}, "What would be written"), edit.difference ? difference(edit.difference) : h("p", {}, "Nothing would change."),
      h("p", {}, edit.taken_over), edit.warnings.map((text) => notice("warn", text))) : null,
    edit ? reasonField(form) : null,
    endings(dialog,
      button("Show the difference", () => dialog.run("Looking …", async () => {
        form.edit = await send(true);
      }), { look: edit ? "" : "primary", focus: !form.kind }),
      edit ? button(does, () => dialog.run("Writing …", async () => {
        const written = await send(false);
        tell(written.taken_over || "It is written.");
        dialog.close();
        done();
      }), { look: "primary", why: edit.difference ? "" : "Nothing would change." }) : null),
  ];
}

/** As `diff -u` writes it; signs stay, so that colour is not all that tells. */
function difference(text) {
  const tone = (line) => (/^(\+\+\+|---|@@)/.test(line) ? "meta" : line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "same");
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "The difference" },
    text.replace(/\n$/, "").split("\n").map((line) => h("span", { class: `diff-${tone(line)}` }, `${line}\n`)));
}
