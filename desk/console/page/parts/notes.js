// What is said to a reader in passing: one polite line that both eyes and screen readers get, and that does not chatter.

import { h } from "../core/dom.js";

const SHOWN_FOR = 7_000;
let last = "";

/** Say it once; the same again at once is not repeated to those who hear it. */
export function tell(text) {
  const region = document.getElementById("said");
  if (text !== last || region.textContent === "") region.textContent = text;
  last = text;
  const note = h("div", { class: "note" }, text);
  const host = document.getElementById("notes");
  host.replaceChildren(note);
  setTimeout(() => {
    note.remove();
    if (region.textContent === text) region.textContent = "";
  }, SHOWN_FOR);
}
