/**
 * Conditions of the search box, and the moves of the current position.
 *
 * A search runs in parts: the server answers how far it looked, and the next request continues there, so
 * that progress is shown and the search can be stopped. Starting a move stops the one before.
 */

import { Latest, request, type Move } from "./api";
import { byId, grouped } from "./dom";
import type { Model } from "./model";

export interface Condition { name: string; value: string }

const FLAGS = new Set(["exception", "gap", "context", "finding"]);
const RANGE = /^(?:0x[0-9a-f]+|\d+)(?:\.\.(?:0x[0-9a-f]+|\d+))?$/i;

/** Reads a condition; the syntax is in the help. Anything else is searched for in the disassembly. */
export function parseCondition(text: string): Condition {
  const line = text.trim();
  const [word = "", ...others] = line.split(/\s+/);
  const rest = others.join(" ");
  if (line === "") throw new Error("Enter what to search for; ? lists the conditions.");
  if (FLAGS.has(word) && rest === "") return { name: word, value: "1" };
  if ((word === "read" || word === "write") && rest !== "") {
    if (!RANGE.test(rest)) throw new Error(`“${word}” needs an address or a range, such as ${word} 0x8000..0x8010.`);
    return { name: `memory_${word}`, value: rest };
  }
  if ((word === "function" || word === "opcode" || word === "text" || word === "register" || word === "address") && rest !== "") return { name: word, value: rest };
  if (/^0x[0-9a-f]+$/i.test(line)) return { name: "address", value: line };
  if (/^\w+=\S+$/.test(line)) return { name: "register", value: line };
  return { name: "text", value: line };
}

export class Moves {
  private readonly latest = new Latest();
  private readonly box = byId("searching");
  private readonly bar = byId<HTMLProgressElement>("searching-progress");
  private readonly label = byId("searching-text");
  private searching = false;

  constructor(private readonly model: Model) {
    byId("searching-stop").addEventListener("click", () => this.stop("The search was stopped."));
    model.on("moved", () => { if (this.searching) this.stop(""); });
  }

  stop(text: string): void {
    if (this.searching && text) this.model.notice(text);
    this.latest.abort();
    this.finish();
  }

  by(rows: number): void {
    const { source, n } = this.model.side;
    const target = n + rows;
    if (target < 1 && n === 1) this.model.notice("This is the first instruction.");
    else if (source.lengthKnown && n >= source.length && rows > 0) this.model.notice("This is the last instruction.");
    else this.to(target);
  }

  to(n: number): void {
    this.latest.abort();
    this.model.go(n);
  }

  async step(move: Move, none: string): Promise<void> {
    const { source, n } = this.model.side;
    const signal = this.latest.next();
    try {
      const answer = await request("step", { t: source.t, s: source.s, at: n, move }, signal);
      if (signal.aborted) return;
      if (answer.n === null) this.model.notice(none);
      else this.model.go(answer.n);
    } catch (error) {
      this.model.report(error);
    }
  }

  async locate(place: string): Promise<boolean> {
    const { source } = this.model.side;
    const signal = this.latest.next();
    try {
      const answer = await request("locate", { t: source.t, s: source.s, place }, signal);
      if (signal.aborted) return false;
      if (answer.n === null) this.model.notice(`${place} is not in this trace.`);
      else this.model.go(answer.n);
      return answer.n !== null;
    } catch (error) {
      this.model.report(error);
      return false;
    }
  }

  /** Goes to the next or previous instruction that meets a condition. */
  async find({ name, value }: Condition, forward: boolean): Promise<void> {
    const { source, n } = this.model.side;
    const signal = this.latest.next();
    const shown = FLAGS.has(name) ? name : `${name.replace("_", " ")} ${value}`;
    let from = n;
    const slow = setTimeout(() => { if (!signal.aborted) this.box.hidden = false; }, 150);
    this.searching = true;
    this.box.hidden = true;
    this.bar.removeAttribute("value");
    this.label.textContent = `Searching for ${shown}`;
    try {
      for (;;) {
        const answer = await request("find", { t: source.t, s: source.s, from, direction: forward ? "next" : "previous", [name]: value }, signal);
        if (answer.n !== null) {
          this.finish();
          this.model.go(answer.n);
          return;
        }
        if (answer.more === null || answer.more === undefined || answer.more === from) break;
        from = answer.more;
        const whole = forward ? source.length - n : n;
        this.bar.value = Math.min(1, Math.abs(from - n) / Math.max(1, whole));
        this.label.textContent = `Searching for ${shown}: at #${grouped(from)}`;
      }
      this.model.notice(`No ${forward ? "next" : "previous"} ${shown}.`);
    } catch (error) {
      this.model.report(error);
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) this.finish();
    }
  }

  private finish(): void {
    this.searching = false;
    this.box.hidden = true;
  }
}
