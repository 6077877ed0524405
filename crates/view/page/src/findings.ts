/** The findings of the check of the current source; picking one goes to its instruction. */

import { request, type Finding } from "./api";
import { el, grouped, setText, span } from "./dom";
import { List } from "./list";
import type { Model, Source } from "./model";
import type { Pane } from "./tabs";

export class FindingsPane implements Pane {
  readonly id = "findings";
  readonly title = "Findings";
  readonly element: HTMLElement;
  private readonly note = el("p", { class: "empty" });
  private readonly list: List<Finding>;
  private items: Finding[] = [];
  private shownFor: Source | null = null;

  constructor(private readonly model: Model) {
    this.list = new List<Finding>("Findings; Enter goes to the instruction", finding => [
      span(`severity ${finding.severity}`, finding.severity),
      span("entry", finding.n === null ? "" : `#${grouped(finding.n)}`),
      span("rule", finding.rule, 60),
      span("text", finding.text, 400),
    ], finding => {
      if (finding.n === null) model.notice("This finding has no instruction.");
      else model.go(finding.n);
    });
    this.element = el("div", { class: "findings" }, this.note, this.list.element);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source, n } = this.model.side;
    if (this.shownFor !== source) {
      const { items, more, state } = await request("findings", { t: source.t, s: source.s }, signal);
      if (signal.aborted) return;
      this.shownFor = state === "running" ? null : source;
      this.items = items;
      this.list.set(items);
      const count = `${grouped(items.length + more)} ${items.length + more === 1 ? "finding" : "findings"}`;
      const listed = more > 0 ? `, the first ${grouped(items.length)} are listed` : "";
      setText(this.note, state === "running" ? `${count} so far${listed}; the check is running.` : items.length === 0 ? source.progress?.findings.why ?? "The check found nothing." : `${count}${listed}.`, 300);
    }
    const here = this.items.findIndex(finding => finding.n === n);
    if (here >= 0) this.list.select(here);
  }
}
