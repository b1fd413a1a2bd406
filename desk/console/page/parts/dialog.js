// Dialogs: what must be answered before something is changed. The browser's own <dialog> keeps the focus inside and closes with Escape.
//
// A dialog is drawn by a function of its state, again after each step (form, dry run, result); nothing is sent before a button is pressed.

import { h, patch } from "../core/dom.js";
import { button, failure } from "./bits.js";

/** Open one. `draw(dialog)` returns what is inside; `dialog` has `redraw`, `close`, `run` and `busy`. Returns when it is closed. */
export function openDialog(title, draw) {
  const before = document.activeElement;
  const host = document.getElementById("dialogs");
  const body = h("div", { class: "dialog-body" });
  const name = `dialog-${Date.now()}`;
  const element = h("dialog", { "aria-labelledby": name, class: "dialog" },
    h("div", { class: "dialog-head" }, h("h2", { id: name }, title),
      button("Close", () => element.close(), { look: "small quiet" })), body);
  const dialog = {
    busy: null,
    error: null,
    close: () => element.close(),
    redraw: () => patch(body, [draw(dialog), dialog.error ? failure(dialog.error) : null]),
    /** Do something that takes a while, once at a time; what is refused is shown and can be corrected. */
    async run(what, work) {
      if (dialog.busy) return;
      Object.assign(dialog, { busy: what, error: null });
      dialog.redraw();
      try {
        await work();
      } catch (error) {
        dialog.error = error;
      } finally {
        dialog.busy = null;
        if (element.open) dialog.redraw();
      }
    },
  };
  host.append(element);
  dialog.redraw();
  element.showModal();
  (body.querySelector("[data-focus]") ?? body.querySelector("input, select, textarea, button"))?.focus();
  return new Promise((done) => {
    element.addEventListener("close", () => {
      element.remove();
      if (before?.isConnected) before.focus();
      else document.querySelector("main h1")?.focus();
      done();
    });
  });
}

/** The row of buttons at the end: what does it, and the way out. */
export function endings(dialog, ...buttons) {
  return h("div", { class: "dialog-end", key: "end" },
    h("span", { class: "muted", role: "status" }, dialog.busy ?? ""),
    button("Cancel", dialog.close, { look: "quiet" }), buttons);
}

/** A field with its label above and an explanation below. */
export function field(label, input, help = null) {
  const id = `field-${label.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  input.id = id;
  if (help) input.setAttribute("aria-describedby", `${id}-help`);
  return h("div", { class: "field", key: id }, h("label", { for: id }, label), input,
    help ? h("p", { class: "help", id: `${id}-help` }, help) : null);
}

export function reasonField(state, { focus = false } = {}) {
  return field("Reason", h("input", { type: "text", maxlength: 400, value: state.reason ?? "", "data-focus": focus, autocomplete: "off",
    on: { input: (event) => (state.reason = event.target.value) } }), "Kept in the audit log, with your name.");
}

export function tick(label, checked, change, { key = label, help = null } = {}) {
  return h("label", { class: "tick", key }, h("input", { type: "checkbox", checked, on: { change: (event) => change(event.target.checked) } }),
    h("span", {}, label, help ? h("span", { class: "help" }, help) : null));
}

/** When the view behind them is left. */
export function closeDialogs() {
  for (const element of document.querySelectorAll("dialog[open]")) element.close();
}
