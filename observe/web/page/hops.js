// The paths of flows hop by hop, where packets bring records of them to their receivers.

import { bytes, whole } from "./format.js";

const MOST = 120; // rows: more are for `weft top --hops HOST`

/** 1234 -> "1.23 µs"; nothing where it is not known. */
export function time(ns) {
  if (ns === null) return "";
  const [size, unit] = ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}

function cells(row) {
  const mean = row.mean_queue_bytes === null ? "" : bytes(row.mean_queue_bytes);
  return [
    `${row.source} > ${row.target}`,
    String(row.queue_pair),
    `${row.hop} of ${row.hops}`,
    row.switch === null ? "?" : `${row.switch}:${row.port}`,
    bytes(row.queue_bytes),
    mean,
    time(row.latency_ns),
    time(row.mean_latency_ns),
  ];
}

/** Show what a moment has of hops in a table, which is hidden where there is nothing. */
export function showHops(table, moment) {
  const rows = moment.hops ?? [];
  table.hidden = rows.length === 0 && !moment.hops_problem;
  const made = rows.slice(0, MOST).map((row) => {
    const line = document.createElement("tr");
    cells(row).forEach((text, index) => {
      const cell = document.createElement("td");
      if (index > 3) cell.className = "n";
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  });
  const note = moment.hops_problem ?? (rows.length > MOST ? `${whole(rows.length - MOST)} more` : "");
  if (note) {
    const line = document.createElement("tr");
    const cell = document.createElement("td");
    cell.colSpan = 8;
    cell.textContent = note;
    line.append(cell);
    made.push(line);
  }
  table.tBodies[0].replaceChildren(...made);
}
