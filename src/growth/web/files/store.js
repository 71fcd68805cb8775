// What the page knows: tables of rows, as the server tells them. The whole comes first, then what changed.

const TOKEN = "growth-token";
const COLOURS = 8;

export class Store extends EventTarget {
  constructor() {
    super();
    this.tables = {};
    this.at = 0;
    this.isReady = false;
    this.connection = "connecting";
    this.colours = new Map(); // workload → number of its colour; a workload keeps it
    this.chosen = ""; // the class that stands out
    this.query = "";
    this.pending = new Set();
  }

  table(name) {
    return this.tables[name] ?? new Map();
  }

  get cluster() {
    return this.table("cluster").get("");
  }

  async follow() {
    for (let tries = 0; ; tries += 1) {
      try {
        await this.stream(() => { tries = 0; });
        this.say("lost");
      } catch (error) {
        if (error.status === 401 || error.status === 403) {
          this.say(error.status === 401 ? "token" : "forbidden");
          return;
        }
        this.say("lost");
      }
      await new Promise((go) => setTimeout(go, Math.min(10000, 500 * 2 ** tries)));
    }
  }

  async stream(opened) {
    const answer = await this.ask("api/events");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    opened();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) this.hear(part);
    }
  }

  async ask(path) {
    const token = sessionStorage.getItem(TOKEN);
    const answer = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, credentials: "omit", cache: "no-store" });
    if (!answer.ok) throw Object.assign(new Error(await answer.text()), { status: answer.status });
    return answer;
  }

  signIn(token) {
    sessionStorage.setItem(TOKEN, token);
    this.say("connecting");
    this.follow();
  }

  hear(part) {
    const lines = part.split("\n");
    const name = lines.find((line) => line.startsWith("event: "))?.slice(7);
    const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
    if (!data) return;
    const began = performance.now();
    const news = JSON.parse(data);
    this.at = news.at;
    if (name === "whole") this.takeWhole(news.tables);
    else this.takeDelta(news.tables);
    if (this.connection !== "live") this.say("live");
    this.spent = performance.now() - began;
    this.announce();
  }

  takeWhole(tables) {
    const known = new Set([...Object.keys(this.tables), ...Object.keys(tables)]);
    this.tables = Object.fromEntries(Object.entries(tables).map(([name, rows]) => [name, new Map(Object.entries(rows))]));
    this.isReady = true;
    known.forEach((name) => this.pending.add(name));
    this.changedNodes = null; // all of them
    this.paint();
  }

  takeDelta(tables) {
    for (const [name, change] of Object.entries(tables)) {
      const rows = (this.tables[name] ??= new Map());
      for (const key of change.gone ?? []) rows.delete(key);
      for (const [key, row] of Object.entries(change.set ?? {})) rows.set(key, row);
      this.pending.add(name);
      if (name === "nodes" && this.changedNodes !== null) {
        this.changedNodes ??= new Set();
        [...(change.gone ?? []), ...Object.keys(change.set ?? {})].forEach((key) => (this.changedNodes ??= new Set()).add(key));
      }
    }
    if (tables.classes) this.paint();
  }

  /** Many events may come at once; parts draw once for all of them. */
  announce() {
    if (this.isAnnounced) return;
    this.isAnnounced = true;
    const tell = () => {
      this.isAnnounced = false;
      const began = performance.now();
      const changed = this.pending;
      this.pending = new Set();
      this.dispatchEvent(new CustomEvent("change", { detail: changed }));
      this.changedNodes = undefined;
      this.longest = Math.max(this.longest ?? 0, performance.now() - began + (this.spent ?? 0));
      this.updates = (this.updates ?? 0) + 1;
    };
    if (document.hidden) setTimeout(tell, 250);
    else requestAnimationFrame(tell);
  }

  say(connection) {
    this.connection = connection;
    this.pending.add("connection");
    this.announce();
  }

  choose(workload) {
    this.chosen = this.chosen === workload ? "" : workload;
    this.redraw();
  }

  search(query) {
    this.query = query.trim().toLowerCase();
    this.redraw();
  }

  redraw() {
    this.changedNodes = null;
    this.pending.add("highlight");
    this.announce();
  }

  /** The largest workloads get colours first; whoever has one keeps it. */
  paint() {
    const sizes = new Map();
    for (const row of this.table("classes").values()) {
      if (!row.daemon) sizes.set(workload(row), (sizes.get(workload(row)) ?? 0) + row.cpu);
    }
    const fresh = [...sizes].filter(([name]) => !this.colours.has(name)).sort((one, other) => (one[0] < other[0] ? -1 : 1));
    for (const [name] of fresh) {
      const used = new Set([...this.colours].filter(([each]) => sizes.has(each)).map(([, colour]) => colour));
      const free = [...Array(COLOURS).keys()].find((colour) => !used.has(colour));
      if (free !== undefined) this.colours.set(name, free);
    }
  }

  /** The style class and the name of the colour of a class of pods. */
  colourOf(name) {
    const row = this.table("classes").get(name);
    if (!row) return "other";
    if (row.daemon) return "daemon";
    return this.colours.get(workload(row)) ?? "other";
  }
}

export const workload = (row) => `${row.namespace}/${row.workload}`;
export const swatch = (colour) => (colour === "daemon" ? "swatch kd" : colour === "other" ? "swatch" : `swatch k${colour}`);
