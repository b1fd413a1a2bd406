// Signing in: the token that the operator of the console gave out. It is sent once, in the body, and never kept by the page.

import { signIn } from "../core/api.js";
import { h } from "../core/dom.js";
import { failure, notice } from "../parts/bits.js";

/** `expired`: whether somebody was signed in before. `done`: called when the console knows us. */
export function draw(expired, done) {
  const said = h("div", { key: "said", kept: true });
  const submit = async (event) => {
    event.preventDefault();
    const input = event.target.elements.token;
    said.replaceChildren();
    try {
      await signIn(input.value);
      input.value = "";
      await done();
    } catch (error) {
      said.replaceChildren(failure(error));
      input.select();
    }
  };
  return h("form", { class: "panel login", key: "login", method: "post", on: { submit } },
    h("h1", { tabindex: "-1" }, "Sign in"),
    expired ? notice("info", "The session has ended. Sign in to go on where you were.") : null,
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"),
      h("input", { id: "token", name: "token", type: "password", autocomplete: "current-password", required: true }),
      h("p", { class: "help" }, "The content of the file that the console was started with (--token-file).")),
    said,
    h("p", { class: "actions" }, h("button", { type: "submit", class: "button primary" }, "Sign in")));
}
