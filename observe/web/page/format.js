// Numbers as a person reads them.

const FULL = 1.03;
const PREFIXES = ["", "k", "M", "G", "T", "P"];

/** 40000000 -> "40.0 M"; `unit` follows. */
export function scaled(value, unit) {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < PREFIXES.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = value === 0 || Math.abs(value) >= 99.95 || (step === 0 && Number.isInteger(value)) ? 0 : 1;
  return `${value.toFixed(digits)} ${PREFIXES[step]}${unit}`.trimEnd();
}

export const rate = (bps) => scaled(bps, "b/s");
export const bytes = (count) => scaled(count, "B");
export const packets = (pps) => scaled(pps, "/s");

export function percent(share) {
  if (!share) return "0 %";
  if (share < 0.005) return "< 1 %";
  // A packet more or less in a look is no more than all of a link.
  return `${share > 1 && share < FULL ? 100 : Math.round(share * 100)} %`;
}

/** 1234567 -> "1 234 567" */
export const whole = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u2009");

/** The class that colours a load: l0 idle to l6 full. */
export function loadClass(load) {
  const limits = [0.0005, 0.05, 0.25, 0.5, 0.75, 0.95];
  const at = limits.findIndex((limit) => load <= limit);
  return `l${at < 0 ? limits.length : at}`;
}
