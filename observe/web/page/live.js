// Gets events from the server and hands them to the drawing, the table and the tiles.

import { Drawing, dropsOf } from "./drawing.js";
import { bytes, packets, percent, rate, whole } from "./format.js";
import { showHops } from "./hops.js";
import { PortTable } from "./table.js";

const HISTORY = 60;
const find = (id) => document.getElementById(id);

const drawing = new Drawing(find("drawing"), find("tooltip"), (names) => table.mark(names));
const table = new PortTable(find("ports"), find("inside"), find("filter"), (names) => drawing.mark(names));
const history = new Map();
let fabric = null;
let moment = null;

function say(state, word, reason = "") {
  document.body.dataset.state = state;
  find("state").textContent = word;
  find("banner").hidden = !reason;
  find("banner").textContent = reason;
}

function unit() {
  return document.querySelector("input[name=unit]:checked").value;
}

function showFabric(told) {
  fabric = told;
  moment = null;
  history.clear();
  document.title = `${told.topology} – weft`;
  find("topology").textContent = told.topology;
  find("description").textContent = told.description;
  find("run").textContent = told.run;
  find("runtime").textContent = `${told.runtime}, real time`;
  find("scale").textContent = whole(told.time_scale);
  find("units").hidden = told.time_scale === 1;
  drawing.build(told);
  table.build(told);
}

function showMoment(told) {
  moment = told;
  const factor = unit() === "fabric" ? told.time_scale : 1;
  find("base").textContent = base(factor, told.time_scale);
  drawing.update(told, factor);
  table.update(told, factor);
  showHops(find("hops"), told);
  showTiles(factor);
  showMarks();
}

/** Name those who take links, where anybody says it, and let links have their colours. */
function showMarks() {
  const { names } = drawing.marks;
  find("marks").hidden = names.length === 0;
  drawing.colourByMarks(names.length > 0 && find("by-marks").checked);
  if (find("marks").dataset.told === drawing.marks.told) return;
  find("marks").dataset.told = drawing.marks.told;
  find("marks-title").textContent = [...new Set(names.map(({ title }) => title))].join(", ");
  find("marks-names").replaceChildren(
    ...names.map(({ name, colour }) => {
      const made = document.createElement("span");
      const chip = document.createElement("i");
      chip.style.background = colour;
      made.append(chip, name);
      return made;
    }),
  );
}

/** Which second all rates are of. */
function base(factor, scale) {
  if (scale === 1) return "";
  return factor === 1 ? "rates on this machine" : `rates in the fabric: × ${whole(scale)}`;
}

function showTiles(factor) {
  const ports = fabric.ports.filter((port) => port.is_switch && drawing.at(port.name));
  const most = (value) =>
    ports.reduce((best, port) => (value(drawing.at(port.name)) > value(drawing.at(best.name)) ? port : best), ports[0]);
  const sum = (value, among = ports) => among.reduce((total, port) => total + value(drawing.at(port.name)), 0);
  const hosts = ports.filter((port) => !drawing.ports.get(port.peer).is_switch);

  const sent = sum((now) => now.rx_bps, hosts);
  tile("in", rate(sent * factor), factor === 1 ? "" : `${rate(sent)} here`, sent);

  const load = (now) => Math.max(now.tx_load, now.rx_load);
  const fullest = ports.length ? most(load) : null;
  const fullness = fullest ? load(drawing.at(fullest.name)) : 0;
  // More than a link takes: the machine had held a host or a switch up, which now makes up for it.
  const behind = percent(fullness) === percent(1) || fullness < 1 ? "" : ", catching up";
  tile("load", percent(fullness), fullness ? `${fullest.name} – ${fullest.peer}${behind}` : "", fullness);

  const depth = (now) => now.queue_bytes ?? 0;
  const longest = ports.length ? most(depth) : null;
  const waiting = longest ? depth(drawing.at(longest.name)) : 0;
  tile("queue", waiting ? bytes(waiting) : "empty", waiting ? `${longest.name} to ${longest.peer}` : "", waiting);

  const marks = sum((now) => now.marks_ps);
  tile("marks", packets(marks * factor), counted(sum((now) => now.marked ?? 0), marks, factor), marks);

  const switches = Object.values(moment.switches);
  const drops = switches.reduce((total, now) => total + dropsOf(now), 0);
  const all = switches.reduce(
    (total, now) =>
      total + total_of(now.drops) + Object.values(now.ports).reduce((at, port) => at + total_of(port.drops), 0),
    0,
  );
  tile("drops", packets(drops * factor), counted(all, drops, factor), drops);
  find("box-drops").classList.toggle("alarm", drops > 0);
}

/** What a rate has come to; and the rate on this machine, where another one is shown. */
function counted(count, pps, factor) {
  return `${whole(count)} in all${factor === 1 || !pps ? "" : `, ${packets(pps)} here`}`;
}

const total_of = (counts) => Object.values(counts).reduce((sum, count) => sum + count, 0);

function tile(name, value, note, figure) {
  find(`tile-${name}`).textContent = value;
  find(`note-${name}`).textContent = note;
  const past = history.get(name) ?? [];
  if (past.at !== moment.at) past.push(figure); // not again when only the unit was changed
  past.at = moment.at;
  if (past.length > HISTORY) past.shift();
  history.set(name, past);
  spark(find(`spark-${name}`), past);
}

function spark(svg, values) {
  const top = Math.max(...values);
  svg.setAttribute("viewBox", `0 0 ${HISTORY - 1} 40`);
  svg.setAttribute("preserveAspectRatio", "none");
  if (values.length < 2 || top === 0) {
    svg.replaceChildren();
    return;
  }
  const start = HISTORY - values.length;
  const points = values.map((value, index) => `${start + index},${(39 - 36 * (value / top)).toFixed(1)}`);
  const path = (kind, d) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
    made.setAttribute("class", kind);
    made.setAttribute("d", d);
    return made;
  };
  svg.replaceChildren(
    path("area", `M${start},40 L${points.join(" L")} L${HISTORY - 1},40 Z`),
    path("curve", `M${points.join(" L")}`),
  );
}

function listen() {
  const source = new EventSource("api/events");
  source.addEventListener("fabric", (event) => showFabric(JSON.parse(event.data)));
  source.addEventListener("moment", (event) => {
    say("live", "live");
    showMoment(JSON.parse(event.data));
  });
  source.addEventListener("idle", (event) => {
    const reason = JSON.parse(event.data).reason;
    say("idle", "waiting", fabric ? `The run has ended (${reason}). This page shows the next one.` : `${reason}: waiting for one`);
  });
  // The browser connects again by itself.
  source.addEventListener("error", () => say("lost", "lost", "weft web does not answer: trying again"));
}

find("units").addEventListener("change", () => moment && showMoment(moment));
find("by-marks").addEventListener("change", () => moment && showMarks());
find("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
listen();
