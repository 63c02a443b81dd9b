// Whose flows take which half of a link: what mechanisms say (a job's planned paths, say), in colours.

const TURN = 137.5; // the golden angle: colours next to each other in the list are far apart

/** Keeps each name's colour for as long as the page is open, whoever comes and goes beside it. */
export class Marks {
  constructor() {
    this.numbers = new Map();
    this.told = "[]";
    this.names = []; // { title, name, colour }
    this.users = new Map(); // the sending end of a half -> [{ title, name, colour, flows }]
  }

  /** Take what was told; say whether it is new. */
  take(marks = []) {
    const told = JSON.stringify(marks);
    if (told === this.told) return false;
    this.told = told;
    this.names = [];
    this.users = new Map();
    for (const { title, flows } of marks) {
      for (const [name, ends] of Object.entries(flows)) {
        const colour = this.#colour(`${title} ${name}`);
        this.names.push({ title, name, colour });
        for (const [end, count] of Object.entries(ends)) {
          const there = this.users.get(end) ?? [];
          this.users.set(end, [...there, { title, name, colour, flows: count }]);
        }
      }
    }
    return true;
  }

  /** Who sends at this end of a link. */
  at(end) {
    return this.users.get(end) ?? [];
  }

  #colour(name) {
    if (!this.numbers.has(name)) this.numbers.set(name, this.numbers.size);
    return `hsl(${(210 + TURN * this.numbers.get(name)) % 360} 68% 50%)`;
  }
}
