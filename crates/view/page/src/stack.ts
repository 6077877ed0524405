/** The call stack at the current instruction, innermost first. */

import { request, type Frame } from "./api";
import { el, grouped, setText, span } from "./dom";
import { List } from "./list";
import type { Model } from "./model";
import type { Pane } from "./tabs";

export class StackPane implements Pane {
  readonly id = "stack";
  readonly title = "Call stack";
  readonly element: HTMLElement;
  private readonly note = el("p", { class: "empty" });
  private readonly list: List<Frame>;

  constructor(private readonly model: Model) {
    this.list = new List<Frame>("Call stack, innermost first; Enter goes to the entry", frame => [
      span("depth", String(frame.depth)),
      span(frame.function === null ? "name address" : "name", frame.function ?? frame.address, 120),
      span("entry", frame.began === "called" ? `#${grouped(frame.entry)}` : `${frame.began} #${grouped(frame.entry)}`),
    ], frame => model.go(frame.entry));
    this.element = el("div", { class: "stack" }, this.note, this.list.element);
    // The answer of the server changes once calls are known.
    let waiting = true;
    model.on("loaded", () => {
      const running = model.side.source.progress?.calls.state === "running";
      if (waiting && !running) model.emit("moved");
      waiting = running;
    });
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source, n } = this.model.side;
    const stack = await request("stack", { t: source.t, s: source.s, at: n }, signal);
    if (signal.aborted) return;
    const frames = stack.frames ?? [];
    const calls = source.progress?.calls;
    setText(this.note, stack.state === "running" ? "Calls are still being followed." : frames.length === 0 ? calls?.why ?? "No call is known here." : "", 300);
    this.list.set(frames, frames.length > 0 ? 0 : -1);
  }
}
