// Lines over the last hour, drawn as SVG by hand: one figure a chart, with its text alternative, its highest value and a table behind it.
//
// A value that was not known is a gap in the line, never a zero.

import { h, s } from "../core/dom.js";
import { clock } from "../core/words.js";
import { when } from "./bits.js";

const WIDTH = 600;
const HEIGHT = 120;
const HOUR = 3600;

/** Round values on a clock, for charts of seconds. */
export const CLOCK = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 2700, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 345600];

/** `points`: as in `History`; `say(value)`: a value with its unit; `brief`: the value of now stands beside it already. */
export function chart(title, points, say, { tone = "accent", now = Date.now() / 1000, steps = null, brief = false } = {}) {
  const known = points.filter((point) => point.value !== null && point.value !== undefined);
  if (!known.length) {
    return h("figure", { class: "chart", key: title }, h("figcaption", {}, h("strong", {}, title)),
      h("p", { class: "empty" }, "Nothing is known of the last hour yet: the console has just begun to look."));
  }
  const end = Math.max(now, known.at(-1).at);
  const from = end - HOUR;
  const top = ceiling(Math.max(...known.map((point) => point.value)), steps);
  const x = (at) => ((at - from) / HOUR) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * (HEIGHT - 4) - 1;
  const peak = known.reduce((best, point) => (point.value > best.value ? point : best));
  const highest = peak.value ? `highest ${say(peak.value)} at ${clock(peak.at * 1000)}` : `${say(0)} in all of the last hour`;
  const summary = `now ${latest(points, say)}, ${highest}`;
  const { line, area } = paths(points.filter((point) => point.at >= from), x, y);
  const reading = h("span", { class: "chart-reading" }, brief ? highest : summary);
  return h("figure", { class: "chart", key: title },
    h("figcaption", {}, h("strong", {}, title), reading),
    h("div", { class: "chart-plot", on: hover(points, from, say, brief ? highest : summary) },
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} over the last hour: ${summary}` },
        [0.25, 0.5, 0.75].map((part) => s("line", { class: "chart-grid", x1: 0, x2: WIDTH, y1: HEIGHT * part, y2: HEIGHT * part })),
        s("path", { class: `chart-area chart-${tone}`, d: area }), s("path", { class: `chart-line chart-${tone}`, d: line }),
        s("line", { class: "chart-cross", x1: -9, x2: -9, y1: 0, y2: HEIGHT })),
      peak.value ? h("span", { class: "chart-top" }, say(top)) : null, h("span", { class: "chart-zero" }, "0")),
    h("div", { class: "chart-times", "aria-hidden": "true" }, ["−60 min", "−45", "−30", "−15", "now"].map((text) => h("span", {}, text))),
    asTable(title, points, say));
}

/** The value of now: the last one, or one that is two looks old at most. */
function latest(points, say) {
  const value = points.slice(-3).map((point) => point.value).findLast((each) => each !== null && each !== undefined);
  return value === undefined ? "not known" : say(value);
}

/** Lines and the areas under them; a gap begins a new one. */
function paths(points, x, y) {
  let line = "";
  let area = "";
  let run = [];
  const finish = () => {
    if (!run.length) return;
    const corners = run.map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`);
    line += `M${corners.join("L")}`;
    if (run.length === 1) line += "h1";
    area += `M${run[0][0].toFixed(1)} ${HEIGHT}L${corners.join("L")}L${run.at(-1)[0].toFixed(1)} ${HEIGHT}Z`;
    run = [];
  };
  for (const point of points) {
    if (point.value === null || point.value === undefined) finish();
    else run.push([x(point.at), y(point.value)]);
  }
  finish();
  return { line, area };
}

/** A round number that is not lower. */
function ceiling(value, steps) {
  const listed = steps?.find((step) => step >= value);
  if (listed) return listed;
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999) ?? value;
}

/** Under the pointer: the value and the time, in the caption. */
function hover(points, from, say, summary) {
  return {
    pointermove(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const at = from + ((event.clientX - box.left) / box.width) * HOUR;
      const near = points.reduce((best, point) => (Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best));
      const reading = event.currentTarget.closest("figure").querySelector(".chart-reading");
      reading.textContent = `${clock(near.at * 1000)}: ${near.value === null ? "not known" : say(near.value)}`;
      const cross = event.currentTarget.querySelector(".chart-cross");
      const place = ((near.at - from) / HOUR) * WIDTH;
      cross.setAttribute("x1", place);
      cross.setAttribute("x2", place);
    },
    pointerleave(event) {
      event.currentTarget.closest("figure").querySelector(".chart-reading").textContent = summary;
      const cross = event.currentTarget.querySelector(".chart-cross");
      cross.setAttribute("x1", -9);
      cross.setAttribute("x2", -9);
    },
  };
}

/** For those who would rather read: one row each five minutes, with the highest value in them. */
function asTable(title, points, say) {
  const spans = new Map();
  for (const point of points) {
    const begin = Math.floor(point.at / 300) * 300;
    const highest = spans.get(begin);
    spans.set(begin, point.value === null ? (highest ?? null) : Math.max(highest ?? 0, point.value));
  }
  const rows = [...spans].reverse().map(([at, value]) =>
    h("tr", { key: at }, h("td", {}, when(at * 1000)), h("td", { class: "number" }, value === null ? "not known" : say(value))));
  return h("details", { class: "chart-table" }, h("summary", {}, "As a table"),
    h("table", {}, h("caption", { class: "unseen" }, `${title}, the highest in each five minutes`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "From"), h("th", { scope: "col", class: "number" }, "Highest"))), h("tbody", {}, rows)));
}
