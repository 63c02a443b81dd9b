// The same figures as rows: sorted by any column, filtered by names.

import { bytes, loadClass, packets, percent, scaled, whole } from "./format.js";

// heading, what it is sorted by, text (of the port's counts, and the factor of rates), class
const COLUMNS = [
  { name: "port", key: null },
  { name: "to", key: null },
  { name: "rx b/s", key: (now) => now.rx_bps, show: (now, factor) => scaled(now.rx_bps * factor, "") },
  { name: "tx b/s", key: (now) => now.tx_bps, show: (now, factor) => scaled(now.tx_bps * factor, "") },
  { name: "load", key: (now) => Math.max(now.rx_load, now.tx_load) },
  {
    name: "queue",
    key: (now) => now.queue_bytes ?? 0,
    show: (now) => bytes(now.queue_bytes),
    kind: (value) => (value ? "warn" : ""),
  },
  {
    name: "marks/s",
    key: (now) => now.marks_ps,
    show: (now, factor) => scaled(now.marks_ps * factor, ""),
    kind: (value) => (value ? "warn" : ""),
  },
  {
    name: "drops/s",
    key: (now) => now.drops_ps,
    show: (now, factor) => scaled(now.drops_ps * factor, ""),
    kind: (value) => (value ? "bad" : ""),
  },
];

export class PortTable {
  /** `onHover(names)` is told which port's row the pointer is at, with its peer. */
  constructor(table, inside, filter, onHover) {
    this.body = table.tBodies[0];
    this.inside = inside;
    this.filter = filter;
    this.onHover = onHover;
    this.sort = { column: 0, descending: false };
    this.rows = [];
    this.heads = COLUMNS.map((column, index) => this.#head(column, index));
    table.tHead.rows[0].append(...this.heads);
    filter.addEventListener("input", () => this.#arrange());
    this.#showSort();
  }

  #head(column, index) {
    const head = document.createElement("th");
    head.scope = "col";
    if (column.key) head.className = "n";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = column.name;
    button.addEventListener("click", () => {
      const again = this.sort.column === index;
      this.sort = { column: index, descending: again ? !this.sort.descending : Boolean(column.key) };
      this.#showSort();
      this.#arrange();
    });
    head.append(button);
    return head;
  }

  #showSort() {
    this.heads.forEach((head, index) => {
      if (index !== this.sort.column) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", this.sort.descending ? "descending" : "ascending");
    });
  }

  build(fabric) {
    const order = fabric.nodes.map((node) => node.name);
    const ports = fabric.ports.filter((port) => port.is_switch);
    ports.sort((a, b) => natural(a.node, b.node) || a.port - b.port);
    this.rows = ports.map((port, index) => this.#row(port, index));
    this.known = new Set(order);
    this.body.replaceChildren(...this.rows.map((row) => row.line));
    this.#arrange();
  }

  #row(port, place) {
    const line = document.createElement("tr");
    const cells = COLUMNS.map((column) => {
      const cell = line.insertCell();
      if (column.key) cell.className = "n";
      return cell;
    });
    cells[0].textContent = port.name;
    cells[0].className = "port";
    cells[1].textContent = port.peer;
    const figure = document.createElement("span");
    const meter = document.createElement("span");
    meter.className = "meter";
    const bar = document.createElement("i");
    meter.append(bar);
    cells[4].append(figure, meter);
    line.addEventListener("pointerenter", () => this.onHover(new Set([port.name, port.peer])));
    line.addEventListener("pointerleave", () => this.onHover(new Set()));
    return { port, place, line, cells, figure, bar, values: COLUMNS.map(() => 0) };
  }

  update(moment, factor) {
    for (const row of this.rows) {
      const now = moment.switches[row.port.node]?.ports[row.port.port];
      COLUMNS.forEach((column, index) => {
        if (!column.key) return;
        const value = now ? column.key(now) : 0;
        row.values[index] = value;
        if (!column.show) {
          row.figure.textContent = value ? percent(value) : "–";
          row.bar.style.width = `${Math.min(100, value * 100)}%`;
          row.bar.className = loadClass(value);
          row.cells[index].classList.toggle("zero", !value);
          return;
        }
        row.cells[index].textContent = value ? column.show(now, factor) : "–";
        row.cells[index].className = `n ${value ? (column.kind?.(value) ?? "") : "zero"}`;
      });
      row.cells[1].textContent = [row.port.peer, now?.up === false ? "down" : now?.state].filter(Boolean).join(" ");
      row.cells[1].classList.toggle("bad", now?.up === false);
    }
    this.#updateInside(moment);
    if (COLUMNS[this.sort.column].key) this.#arrange();
  }

  #updateInside(moment) {
    const lines = [];
    for (const [name, now] of Object.entries(moment.switches)) {
      for (const [why, count] of Object.entries(now.drops)) {
        if (count > 0) lines.push([name, why.replaceAll("_", " "), whole(count), now.drops_ps[why] ?? 0]);
      }
    }
    this.inside.hidden = lines.length === 0;
    this.inside.tBodies[0].replaceChildren(
      ...lines.map(([name, why, count, now]) => {
        const line = document.createElement("tr");
        for (const cell of [name, why, count, now ? packets(now) : "–"]) line.insertCell().textContent = cell;
        line.cells[2].className = "n";
        line.cells[3].className = now ? "n bad" : "n zero";
        return line;
      }),
    );
  }

  /** Put rows in order and hide those that the filter leaves out. */
  #arrange() {
    const { column, descending } = this.sort;
    const turn = descending ? -1 : 1;
    const rows = [...this.rows].sort((a, b) => {
      if (COLUMNS[column].key) return turn * (a.values[column] - b.values[column]) || a.place - b.place;
      return column === 1 ? turn * natural(a.port.peer, b.port.peer) : turn * (a.place - b.place);
    });
    const wanted = this.filter.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    for (const row of rows) {
      row.line.hidden = wanted.length > 0 && !wanted.some((word) => this.#fits(row.port, word));
    }
    if (rows.some((row, index) => this.body.rows[index] !== row.line)) {
      this.body.append(...rows.map((row) => row.line));
    }
  }

  /** A whole node's name means that node alone (s1 is not s10); else any part of a name fits. */
  #fits(port, word) {
    if (this.known.has(word)) return [port.node, port.peer.split(":")[0]].includes(word);
    return port.name.includes(word) || port.peer.includes(word);
  }

  /** Let the rows of these ports stand out. */
  mark(names) {
    for (const { port, line } of this.rows) line.classList.toggle("hot", names.has(port.name));
  }
}

function natural(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}
