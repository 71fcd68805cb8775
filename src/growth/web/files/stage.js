// The controls of a story: pause, speed, chapters. Only the demo has them.

import { Part, el, span } from "./parts.js";

const SPEEDS = [1, 5, 10, 20, 40, 80];

class Stage extends Part {
  static tables = ["cluster"];

  build() {
    this.button = el("button", { class: "main", type: "button", onclick: () => this.steer({ pause: !this.stage.isPaused }) });
    this.speed = el("select", { "aria-label": "Speed", onchange: () => this.steer({ speed: Number(this.speed.value) }) }, SPEEDS.map((speed) => el("option", { value: speed }, `${speed} × as fast`)));
    this.chapters = el("div", { class: "chapters", role: "group", "aria-label": "Chapters" });
    this.time = el("span", { class: "muted num" });
    this.told = el("p", { class: "told" });
    this.append(el("div", { class: "play" }, this.button, this.chapters, this.speed, this.time), this.told);
  }

  draw() {
    const stage = (this.stage = this.store.cluster?.stage);
    this.hidden = !stage;
    if (!stage) return;
    const words = stage.isOver ? "Again" : stage.isPaused ? "Play" : "Pause";
    if (this.button.textContent !== words) this.button.textContent = words;
    if (document.activeElement !== this.speed) {
      if (![...this.speed.options].some((option) => Number(option.value) === stage.speed)) this.speed.append(el("option", { value: stage.speed }, `${stage.speed} × as fast`));
      this.speed.value = String(stage.speed);
    }
    this.time.textContent = `${span(stage.atSeconds)} into the story`;
    const current = stage.chapters.findLastIndex(([, at]) => stage.atSeconds >= at);
    const signature = JSON.stringify([stage.chapters, current]);
    if (signature !== this.signed) {
      this.signed = signature;
      const focused = [...this.chapters.children].indexOf(document.activeElement);
      this.chapters.replaceChildren(...stage.chapters.map(([title], index) => el("button", { type: "button", "aria-current": index === current ? "step" : false, onclick: () => this.steer({ chapter: index }) }, title)));
      if (focused >= 0) this.chapters.children[focused]?.focus();
    }
    const last = stage.said.at(-1);
    this.told.replaceChildren(...(last ? [el("b", {}, `${last[1]} `), last[2]] : []));
  }

  async steer(control) {
    if (this.stage.isOver && control.pause !== undefined) control = { chapter: 0, pause: false };
    await fetch("api/stage", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(control) });
  }
}

customElements.define("growth-stage", Stage);
