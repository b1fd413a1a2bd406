// Keys: everything can be reached with Tab; these are shorter ways. None works while something is being written, or with Ctrl, Alt or Meta.

import { h } from "./dom.js";
import { go, to } from "./places.js";
import { button } from "../parts/bits.js";
import { openDialog } from "../parts/dialog.js";

const PLACES = { n: [], t: ["tables"], q: ["queues"], d: ["dead-letters"], m: ["messages"], s: ["story"], p: ["processes"], c: ["configuration"], a: ["audit"] };
const HELP = [
  ["/", "search: the view's own field, else the tables"], ["r", "read this view again"], ["g n", "Now"], ["g t", "Tables"], ["g q", "Queue and topics"],
  ["g d", "Dead letters"], ["g m", "Messages"], ["g s", "Where is a change?"], ["g p", "Processes"], ["g c", "Configuration"], ["g a", "Audit log"],
  ["Escape", "close a dialog, leave a field"], ["?", "these keys"],
];
let leading = 0;

export function keys(context) {
  document.addEventListener("keydown", (event) => {
    const writing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape" && writing && !event.target.closest("dialog")) {
      event.target.blur();
      return;
    }
    if (writing || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (pressed(event.key, context)) event.preventDefault();
  });
}

/** Whether the key was one of ours. */
function pressed(key, context) {
  if (Date.now() - leading < 1_500 && PLACES[key]) {
    leading = 0;
    go(to(PLACES[key]));
    return true;
  }
  leading = key === "g" ? Date.now() : 0;
  if (key === "/") (document.querySelector("main input[type=search]") ?? document.getElementById("find"))?.focus();
  else if (key === "r") context.refresh();
  else if (key === "?") showKeys();
  return key === "/" || key === "r" || key === "?" || key === "g";
}

export function showKeys() {
  openDialog("Keys", (dialog) => [
    h("dl", { class: "facts", key: "keys" }, HELP.map(([key, does]) => h("div", { key }, h("dt", {}, h("kbd", {}, key)), h("dd", {}, does)))),
    h("div", { class: "dialog-end", key: "end" }, button("Close", dialog.close, { look: "primary", focus: true })),
  ]);
}
