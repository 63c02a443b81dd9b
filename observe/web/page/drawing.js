// The topology as SVG: built once for a fabric, updated with each moment.

import { bytes, loadClass, packets, percent, rate, whole } from "./format.js";
import { Marks } from "./marks.js";

const SVG = "http://www.w3.org/2000/svg";
const STRIPE = 9; // of a half that several share, in the drawing's units
const LEAST_SCALE = 0.5; // smaller can't be read: then the drawing scrolls

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function text(x, y, kind, content = "") {
  const made = element("text", { x, y, class: kind });
  made.textContent = content;
  return made;
}

export class Drawing {
  /** `onHover(names)` is told which ports the pointer is at, as a set; empty for none. */
  constructor(svg, tooltip, onHover) {
    this.svg = svg;
    this.tooltip = tooltip;
    this.onHover = onHover;
    this.factor = 1;
    this.pointed = null;
    this.marks = new Marks();
  }

  build(fabric) {
    this.marks.take();
    this.fabric = fabric;
    this.ports = new Map(fabric.ports.map((port) => [port.name, port]));
    this.nodes = new Map();
    this.slots = new Map();
    this.svg.replaceChildren();
    this.svg.setAttribute("viewBox", `0 0 ${fabric.width} ${fabric.height}`);
    this.svg.style.minWidth = `${Math.round(fabric.width * LEAST_SCALE)}px`;
    this.svg.style.maxWidth = `${Math.round(fabric.width * 1.6)}px`;
    this.svg.append(...fabric.bands.map((band) => this.#band(band)));
    this.links = fabric.links.map((link) => this.#link(link));
    this.svg.append(...this.links.map((link) => link.group));
    for (const port of fabric.ports) if (port.is_switch) this.#slot(port);
    for (const node of fabric.nodes) this.#node(node);
  }

  #band(band) {
    const { x, y, width, height } = band;
    return element(
      "g",
      { class: "band" },
      element("rect", { x, y, width, height, rx: 14 }),
      text(x + width / 2, y + height - 8, "", band.name),
    );
  }

  #link(link) {
    const fastest = Math.max(...this.fabric.links.map((each) => each.rate_bps));
    const base = this.fabric.links.length > 120 ? 2 : this.fabric.links.length > 30 ? 3 : 4.5;
    const width = Math.max(1.2, base * (0.35 + 0.65 * Math.sqrt(link.rate_bps / fastest)));
    const halves = link.paths.map((d) =>
      element("path", { d, class: "half l0", "stroke-width": width.toFixed(2) }),
    );
    const stripes = link.paths.map(() => element("g", { class: "stripes", "stroke-width": width.toFixed(2) }));
    const hit = link.paths.map((d) => element("path", { d, class: "hit" }));
    const group = element("g", { class: "link", "data-a": link.a, "data-b": link.b }, ...halves, ...stripes, ...hit);
    group.style.setProperty("--hot", `${width + 2}px`);
    const made = { ...link, group, halves, stripes };
    this.#tells(group, [link.a, link.b], () => this.#linkTip(made));
    return made;
  }

  #slot(port) {
    const across = port.side === "left" || port.side === "right";
    const { width: wide, height: deep } = this.fabric.slot;
    const [width, height] = across ? [deep, wide] : [wide, deep];
    const x = port.side === "left" ? port.x - width : port.side === "right" ? port.x : port.x - width / 2;
    const y = port.side === "top" ? port.y - height : port.side === "bottom" ? port.y : port.y - height / 2;
    const slot = element("rect", { class: "slot", x, y, width, height, rx: 2.5, "data-port": port.name });
    const fill = element("rect", { class: "fill", x, y, width, height: 0, rx: 2.5 });
    this.slots.set(port.name, { port, slot, fill, x, y, width, height });
    const group = element("g", {}, slot, fill);
    this.#tells(group, [port.name, port.peer], () => this.#portTip(port));
    this.svg.append(group);
  }

  #node(node) {
    const { x, y, width, height } = node;
    const isHost = node.kind === "host";
    const small = isHost && width < 20; // no room for a name
    const box = element("rect", {
      x: x - width / 2, y: y - height / 2, width, height, rx: isHost ? height / 2 : 9,
    });
    const name = text(x, isHost ? y + 0.5 : y - 6.5, "name", small ? "" : node.name);
    const figure = text(x, y + 9.5, "figure");
    const group = element(
      "g",
      { class: `node ${node.kind}`, tabindex: 0, role: "img", "aria-label": `${node.name}, ${node.about}`, "data-node": node.name },
      box, name, figure,
    );
    const badgeWidth = Math.min(width - 10, 76);
    const badge = element("g", { class: "badge", visibility: "hidden" });
    badge.append(
      element("rect", { x: x - badgeWidth / 2, y: y + 1.5, width: badgeWidth, height: 15, rx: 6 }),
      text(x, y + 9.5, ""),
    );
    group.append(badge);
    const ports = this.fabric.ports.filter((port) => port.node === node.name);
    this.nodes.set(node.name, { node, group, figure, badge, ports, isHost });
    this.#tells(group, ports.flatMap((port) => [port.name, port.peer]), () => this.#nodeTip(node, ports));
    this.svg.append(group);
  }

  // --- what each moment changes

  update(moment, factor) {
    this.moment = moment;
    this.factor = factor;
    for (const link of this.links) this.#updateLink(link);
    if (this.marks.take(moment.marks)) for (const link of this.links) this.#stripe(link);
    for (const slot of this.slots.values()) this.#updateSlot(slot);
    for (const node of this.nodes.values()) if (!node.isHost) this.#updateSwitch(node);
    if (this.pointed) this.#showTip(this.pointed.tip());
  }

  /** The counts of a port by its name; undefined for a host's, or while its switch is silent. */
  at(name) {
    const port = this.ports.get(name);
    return port?.is_switch ? this.moment?.switches[port.node]?.ports[port.port] : undefined;
  }

  /** What leaves `from` towards `to`: told by the sender, or by the receiver where that is a host. */
  #direction(from, to) {
    const sender = this.at(from);
    if (sender) return { bps: sender.tx_bps, pps: sender.tx_pps, load: sender.tx_load, port: sender };
    const receiver = this.at(to);
    if (receiver) return { bps: receiver.rx_bps, pps: receiver.rx_pps, load: receiver.rx_load };
    return { bps: 0, pps: 0, load: 0 };
  }

  #updateLink(link) {
    const ends = [[link.a, link.b], [link.b, link.a]];
    ends.forEach(([from, to], index) => {
      link.halves[index].setAttribute("class", `half ${loadClass(this.#direction(from, to).load)}`);
    });
    const down = [link.a, link.b].some((end) => this.at(end)?.up === false);
    link.group.classList.toggle("down", down);
    link.group.dataset.state = down ? "" : this.#state(link);
  }

  /** Colour each half by who takes it, in stripes that take turns where there are several. */
  #stripe(link) {
    [link.a, link.b].forEach((end, index) => {
      const users = this.marks.at(end);
      const dashes = users.length > 1 ? `${STRIPE} ${STRIPE * (users.length - 1)}` : "none";
      link.stripes[index].replaceChildren(
        ...users.map(({ name, colour }, turn) =>
          element("path", {
            d: link.paths[index], stroke: colour, "data-name": name,
            "stroke-dasharray": dashes, "stroke-dashoffset": -STRIPE * turn,
          }),
        ),
      );
    });
  }

  /** Let links have the colours of those who take them, or of their load. */
  colourByMarks(on) {
    this.svg.classList.toggle("by-marks", on);
  }

  /** What the switches at its ends make of a link, in a word: dead, say; empty for nothing. */
  #state(link) {
    return [link.a, link.b].map((end) => this.at(end)?.state).find((state) => state) ?? "";
  }

  #updateSlot({ port, slot, fill, x, y, width, height }) {
    const now = this.at(port.name);
    const share = now?.queue_limit_bytes ? Math.min(1, now.queue_bytes / now.queue_limit_bytes) : 0;
    const across = port.side === "left" || port.side === "right";
    const long = share ? Math.max(1.5, share * this.fabric.slot.height) : 0;
    fill.setAttribute("width", across ? long : width);
    fill.setAttribute("height", across ? height : long);
    // The queue grows from the switch outwards.
    fill.setAttribute("x", port.side === "left" ? x + width - long : x);
    fill.setAttribute("y", port.side === "top" ? y + height - long : y);
    fill.setAttribute("class", share > 0.9 ? "fill full" : "fill");
    slot.classList.toggle("dropping", (now?.drops_ps ?? 0) > 0);
    slot.classList.toggle("down", now?.up === false || now?.state === "dead");
  }

  #updateSwitch({ node, group, figure, badge, ports }) {
    const now = this.moment.switches[node.name];
    const gone = !now || now.error !== "";
    group.classList.toggle("gone", gone);
    const sent = ports.reduce((sum, port) => sum + (this.at(port.name)?.tx_bps ?? 0), 0);
    const drops = gone ? 0 : dropsOf(now);
    figure.textContent = gone ? "no answer" : drops ? "" : sent ? rate(sent * this.factor) : "idle";
    badge.setAttribute("visibility", drops > 0 ? "visible" : "hidden");
    badge.lastChild.textContent = drops > 0 ? `− ${packets(drops * this.factor)}` : "";
  }

  // --- tooltips

  #tells(group, names, tip) {
    const enter = () => {
      this.pointed = { tip };
      this.mark(new Set(names));
      this.onHover(new Set(names));
      this.#showTip(tip());
    };
    const leave = () => {
      this.pointed = null;
      this.tooltip.hidden = true;
      this.mark(new Set());
      this.onHover(new Set());
    };
    group.addEventListener("pointerenter", (event) => {
      this.place = { x: event.clientX, y: event.clientY };
      enter();
    });
    group.addEventListener("pointermove", (event) => {
      this.place = { x: event.clientX, y: event.clientY };
      this.#placeTip();
    });
    group.addEventListener("pointerleave", leave);
    group.addEventListener("focus", () => {
      const box = group.getBoundingClientRect();
      this.place = { x: box.right, y: box.bottom };
      enter();
    });
    group.addEventListener("blur", leave);
  }

  /** Let the links at these ports stand out. */
  mark(names) {
    this.svg.classList.toggle("faded", names.size > 0);
    for (const { group, a, b } of this.links ?? []) {
      group.classList.toggle("hot", names.has(a) && names.has(b));
    }
  }

  #showTip(parts) {
    this.tooltip.replaceChildren(...parts);
    this.tooltip.hidden = false;
    this.#placeTip();
  }

  #placeTip() {
    const box = this.tooltip.getBoundingClientRect();
    const x = Math.min(this.place.x + 16, innerWidth - box.width - 10);
    const below = this.place.y + 18;
    const y = below + box.height < innerHeight ? below : this.place.y - box.height - 14;
    this.tooltip.style.left = `${Math.max(8, x)}px`;
    this.tooltip.style.top = `${Math.max(8, y)}px`;
  }

  #linkTip(link) {
    const ways = [[link.a, link.b], [link.b, link.a]];
    const facts = ways.map(([from, to]) => this.#direction(from, to));
    const state = link.group.classList.contains("down") ? "down" : link.group.dataset.state;
    const row = (name, show) => [name, ...facts.map(show)];
    return [
      heading(`${link.a} – ${link.b}`),
      paragraph(`${link.rate}, ${link.delay} one way${state ? `, ${state}` : ""}`),
      grid([
        ["", ...ways.map(([from, to]) => `${from} → ${to}`)],
        row("load", (way) => percent(way.load)),
        row("rate", (way) => rate(way.bps * this.factor)),
        row("packets", (way) => packets(way.pps * this.factor)),
        row("queue", (way) => (way.port ? queue(way.port) : "–")),
        row("ECN marks", (way) => (way.port?.marked == null ? "–" : packets(way.port.marks_ps * this.factor))),
        row("drops", (way) => (way.port ? packets(way.port.drops_ps * this.factor) : "–")),
        ...this.#users(link),
      ]),
      ...this.#base(),
    ];
  }

  /** A row for each that takes the link, with its flows each way. */
  #users(link) {
    const ways = [link.a, link.b].map((end) => this.marks.at(end));
    const flows = (way, name) => way.find((user) => user.name === name)?.flows;
    const said = (count) => (count ? `${whole(count)} ${count === 1 ? "flow" : "flows"}` : "–");
    return this.marks.names
      .filter(({ name }) => ways.some((way) => flows(way, name)))
      .map(({ title, name }) => [`${title} ${name}`, ...ways.map((way) => said(flows(way, name)))]);
  }

  #portTip(port) {
    const now = this.at(port.name);
    if (!now) return [heading(port.name), paragraph("no answer from its switch")];
    const rows = [
      ["sends", rate(now.tx_bps * this.factor), percent(now.tx_load)],
      ["receives", rate(now.rx_bps * this.factor), percent(now.rx_load)],
      ["queue now", queue(now), now.queue_packets == null ? "" : `${now.queue_packets} packets`],
      ["longest", now.queue_packets_max == null ? "–" : `${now.queue_packets_max} packets`, ""],
      ["ECN marks", now.marked == null ? "–" : whole(now.marked), packets(now.marks_ps * this.factor)],
      ...(this.fabric.counters ?? []).filter(({ key }) => now[key])
        .map(({ key, title }) => [title, whole(now[key]), packets(now[`${key}_ps`] * this.factor)]),
      ...Object.entries(now.drops).map(([why, count]) => [`drops: ${why}`, whole(count), ""]),
    ];
    return [heading(`${port.name} to ${port.peer}`), paragraph(now.up === false ? "down" : now.state || "port of a switch"), grid(rows), ...this.#base()];
  }

  /** Say which second the rates are of, where there are two. */
  #base() {
    return this.factor === 1 ? [] : [paragraph(`rates in the fabric: × ${whole(this.factor)}`)];
  }

  #nodeTip(node, ports) {
    const parts = [heading(node.name), paragraph(node.about)];
    if (node.kind === "host") {
      const ends = ports.map((port) => this.#direction(port.name, port.peer));
      const back = ports.map((port) => this.#direction(port.peer, port.name));
      const sum = (ways) => rate(ways.reduce((total, way) => total + way.bps, 0) * this.factor);
      return [...parts, grid([["sends", sum(ends)], ["receives", sum(back)]])];
    }
    const now = this.moment?.switches[node.name];
    if (!now || now.error) return [...parts, paragraph(now?.error ?? "no answer")];
    const rows = Object.entries(now.drops)
      .filter(([, count]) => count > 0)
      .map(([why, count]) => [`dropped: ${why}`, whole(count), now.drops_ps[why] ? packets(now.drops_ps[why] * this.factor) : ""]);
    if (now.cpu !== null) rows.unshift(["packet loop", `${(now.cpu * 100).toFixed(1)} % of a core`, ""]);
    if (node.group) rows.unshift(["belongs to", node.group, ""]);
    return [...parts, grid(rows)];
  }
}

/** Packets a second that end in a switch or at its ports. */
export function dropsOf(now) {
  const inside = Object.values(now.drops_ps).reduce((sum, each) => sum + each, 0);
  return Object.values(now.ports).reduce((sum, port) => sum + port.drops_ps, inside);
}

function queue(port) {
  if (port.queue_bytes == null) return "–";
  const share = port.queue_limit_bytes ? `, ${percent(port.queue_bytes / port.queue_limit_bytes)}` : "";
  return port.queue_bytes ? bytes(port.queue_bytes) + share : "empty";
}

function heading(content) {
  const made = document.createElement("h3");
  made.textContent = content;
  return made;
}

function paragraph(content) {
  const made = document.createElement("p");
  made.textContent = content;
  return made;
}

function grid(rows) {
  const made = document.createElement("table");
  for (const row of rows) {
    const line = made.insertRow();
    for (const cell of row) line.insertCell().textContent = cell;
  }
  return made;
}
