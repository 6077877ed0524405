/**
 * Two traces side by side: the differences between them, and the alignment that they define.
 *
 * Positions before, between and after the differences correspond one to one; inside a difference they
 * correspond as far as both traces have instructions.
 */

import { Latest, request, sleep, type Difference } from "./api";
import { el, grouped, setText, span } from "./dom";
import { List } from "./list";
import type { Model } from "./model";
import type { Pane } from "./tabs";

export class ComparePane implements Pane {
  readonly id = "differences";
  readonly title = "Differences";
  readonly element: HTMLElement;
  private readonly note = el("p", { class: "empty" });
  private readonly list: List<Difference>;
  private readonly latest = new Latest();
  private items: Difference[] = [];

  constructor(private readonly model: Model) {
    this.list = new List<Difference>("Differences; Enter goes there", item => [
      span("entry", `#${grouped(item.a)}`), span("entry", `#${grouped(item.b)}`), span("text", item.text, 300),
    ], item => this.visit(item));
    this.element = el("div", { class: "differences" }, this.note, this.list.element);
    model.align = (n, from) => this.aligned(n, from);
    model.on("reshaped", () => void this.load());
    void this.load();
  }

  /** Requests the differences again and again until all are known. */
  async load(): Promise<void> {
    const signal = this.latest.next();
    const [a, b] = this.model.sides;
    if (!a || !b) return;
    try {
      for (;;) {
        const answer = await request("differences", { s0: a.source.s, s1: b.source.s }, signal);
        this.items = answer.items;
        this.list.set(answer.items);
        const total = grouped(answer.items.length + answer.more);
        const count = `${total} ${total === "1" ? "difference" : "differences"}`;
        setText(this.note, answer.state === "failed" ? answer.why ?? "The comparison failed."
          : answer.state === "running" ? `${count} so far; the comparison is running.`
          : answer.equal ? "The traces are equal." : `${count}.`, 300);
        this.model.emit("loaded");
        if (answer.state !== "running") break;
        await sleep(500, signal);
      }
    } catch (error) {
      this.model.report(error);
    }
  }

  /** The position in the other trace that corresponds to instruction `n` of side `from`. */
  aligned(n: number, from: number): number {
    const index = this.before(n, from);
    const item = this.items[index];
    if (!item) {
      const first = this.items[0];
      return first ? n - here(first, from) + there(first, from) : n;
    }
    const inside = n - here(item, from);
    if (inside >= hereCount(item, from)) return there(item, from) + thereCount(item, from) + inside - hereCount(item, from);
    return there(item, from) + Math.min(inside, Math.max(0, thereCount(item, from) - 1));
  }

  differs(n: number, side: number): boolean {
    const item = this.items[this.before(n, side)];
    return item !== undefined && n < here(item, side) + hereCount(item, side);
  }

  /** Goes to the next difference, or the previous one. */
  step(forward: boolean): void {
    const { active, side } = this.model;
    const index = this.before(side.n, active);
    const at = this.items[index];
    const target = forward ? index + 1 : at && here(at, active) === side.n ? index - 1 : index;
    const item = this.items[target];
    if (item) this.visit(item);
    else this.model.notice(`There is no ${forward ? "next" : "previous"} difference.`);
  }

  refresh(): void {
    const index = this.before(this.model.side.n, this.model.active);
    this.list.select(this.differs(this.model.side.n, this.model.active) ? index : -1);
  }

  private visit(item: Difference): void {
    this.model.go(here(item, this.model.active));
    const other = this.model.sides[1 - this.model.active];
    if (!other) return;
    other.n = there(item, this.model.active);
    this.model.emit("moved");
  }

  /** The index of the last difference that starts at or before `n`, or -1. */
  private before(n: number, side: number): number {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (here(this.items[middle] as Difference, side) <= n) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}

const here = (item: Difference, side: number): number => (side === 0 ? item.a : item.b);
const there = (item: Difference, side: number): number => (side === 0 ? item.b : item.a);
const hereCount = (item: Difference, side: number): number => (side === 0 ? item.a_count : item.b_count);
const thereCount = (item: Difference, side: number): number => (side === 0 ? item.b_count : item.a_count);
