// The few signs of the page, drawn here: no font and no picture is fetched. Each is an ornament beside words that say the same.

import { s } from "../core/dom.js";

const PATHS = {
  ok: ["M3 8.5 6.5 12 13 4.5"],
  warn: ["M8 2 15 14H1Z", "M8 6.5v3.2", "M8 11.9v.2"],
  bad: ["M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2L1.5 10.8V5.2Z", "M8 4.6v4", "M8 11v.2"],
  info: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13Z", "M8 7.2v4", "M8 4.7v.2"],
  none: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13Z", "M6.2 6.2a1.8 1.8 0 1 1 2.6 1.7c-.6.3-.8.7-.8 1.3", "M8 11.3v.2"],
  wait: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13Z", "M8 4.5V8l2.4 1.6"],
  never: ["M4 4l8 8", "M12 4l-8 8"],
  here: ["M8 5.5a2.5 2.5 0 1 1 0 5a2.5 2.5 0 0 1 0-5Z"],
  open: ["M8 1.5a6.5 6.5 0 1 1 0 13a6.5 6.5 0 0 1 0-13Z"],
  menu: ["M2 4h12", "M2 8h12", "M2 12h12"],
  up: ["M8 12.5v-9", "M4 7l4-4 4 4"],
  down: ["M8 3.5v9", "M4 9l4 4 4-4"],
  right: ["M6 3.5 10.5 8 6 12.5"],
  theme: ["M8 1.5a6.5 6.5 0 1 1 0 13Z", "M8 1.5a6.5 6.5 0 0 0 0 13"],
};

export function icon(name, tone = name) {
  const lines = (PATHS[name] ?? PATHS.none).map((d) => s("path", { d }));
  return s("svg", { class: `icon icon-${tone}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, lines);
}
