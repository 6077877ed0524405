/**
 * Groups of panes, one pane of each group visible.
 *
 * A visible pane is refreshed after every move; the refresh of the position before is aborted. What a
 * refresh fails with is shown as a sentence in the pane.
 */

import { Latest, sentence } from "./api";
import { el } from "./dom";
import type { Model } from "./model";

export interface Pane {
  readonly id: string;
  readonly title: string;
  readonly element: HTMLElement;
  refresh(signal: AbortSignal): Promise<void> | void;
}

export class Tabs {
  private readonly bar: HTMLElement;
  private readonly message = el("p", { class: "message", role: "status" });
  private readonly latest = new Latest();
  private readonly buttons = new Map<string, HTMLButtonElement>();
  current: Pane;

  constructor(private readonly root: HTMLElement, readonly panes: Pane[], model: Model, private readonly changed: () => void) {
    this.current = panes[0] as Pane;
    this.bar = el("div", { role: "tablist", class: "tabs", "aria-label": root.getAttribute("aria-label") ?? "" });
    root.append(this.bar, this.message);
    for (const pane of panes) this.add(pane);
    this.bar.addEventListener("keydown", event => this.key(event));
    model.on("moved", () => this.refresh());
    model.on("reshaped", () => this.refresh());
    this.select(this.current.id);
  }

  has(id: string): boolean {
    return this.buttons.has(id);
  }

  select(id: string): void {
    const pane = this.panes.find(one => one.id === id);
    if (!pane) return;
    this.current = pane;
    for (const one of this.panes) {
      const active = one === pane;
      const button = this.buttons.get(one.id);
      button?.setAttribute("aria-selected", String(active));
      button?.setAttribute("tabindex", active ? "0" : "-1");
      one.element.hidden = !active;
    }
    this.refresh();
    this.changed();
  }

  refresh(): void {
    void this.run(this.current, this.latest.next());
  }

  private async run(pane: Pane, signal: AbortSignal): Promise<void> {
    const slow = setTimeout(() => pane.element.classList.add("stale"), 250);
    signal.addEventListener("abort", () => clearTimeout(slow), { once: true });
    try {
      await pane.refresh(signal);
      if (!signal.aborted) this.message.textContent = "";
    } catch (error) {
      const text = sentence(error);
      if (text !== null && !signal.aborted) this.message.textContent = text;
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) pane.element.classList.remove("stale");
    }
  }

  private add(pane: Pane): void {
    const button = el("button", { role: "tab", id: `tab-${pane.id}`, "aria-controls": `pane-${pane.id}`, type: "button", click: () => this.select(pane.id) }, pane.title);
    this.buttons.set(pane.id, button);
    this.bar.append(button);
    pane.element.id = `pane-${pane.id}`;
    pane.element.classList.add("pane");
    pane.element.setAttribute("role", "tabpanel");
    pane.element.setAttribute("aria-labelledby", button.id);
    this.root.append(pane.element);
  }

  private key(event: KeyboardEvent): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const index = this.panes.indexOf(this.current);
    const next = this.panes[(index + step + this.panes.length) % this.panes.length] as Pane;
    this.select(next.id);
    this.buttons.get(next.id)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
