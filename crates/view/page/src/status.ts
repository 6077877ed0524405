/** The status line: where the current instruction is, the last notice, and what the server still works on. */

import type { Work } from "./api";
import { byId, el, grouped, setText, shown, timeText } from "./dom";
import type { Model } from "./model";

const NOTICE_TIME = 8000;

export class Status {
  private readonly position = byId("position");
  private readonly work = byId("work-progress");
  private readonly text = byId("notice");
  private readonly bars = new Map<string, { root: HTMLElement; bar: HTMLProgressElement; label: HTMLElement }>();
  private timer = 0;

  constructor(private readonly model: Model) {
    model.on("moved", () => {
      this.clear();
      this.show();
    });
    model.on("loaded", () => this.show());
    model.on("reshaped", () => this.show());
    model.on("notice", text => this.notice(text));
  }

  show(): void {
    const { source, n } = this.model.side;
    const row = source.rows.row(n);
    const unit = source.info.time_unit;
    const file = row?.file === null || row === undefined ? undefined : source.rows.files[row.file];
    setText(this.position, [
      `#${grouped(n)} of ${source.lengthKnown ? grouped(source.length) : "unknown"}`,
      row?.time && unit ? timeText(row.time, unit) : "",
      row ? (row.function === null ? row.address : `${shown(row.function, 48)}+0x${row.offset.toString(16)}`) : "",
      file ? `${shown(file.slice(file.lastIndexOf("/") + 1), 40)}:${row?.line ?? "?"}` : "",
    ].filter(Boolean).join("  ·  "), 240);
    for (const [name, work] of source.works()) this.showWork(name, work);
  }

  private showWork(name: string, work: Work): void {
    const entry = this.bars.get(name) ?? this.addBar(name);
    const failed = work.state === "failed";
    entry.root.hidden = work.state === "done" || work.state === "none";
    entry.bar.hidden = failed;
    entry.root.title = shown(work.why ?? "", 400);
    if (work.total) entry.bar.value = work.done / work.total;
    else entry.bar.removeAttribute("value");
    const percent = work.total ? ` ${Math.floor((100 * work.done) / work.total)}%` : ` ${grouped(work.done)}`;
    setText(entry.label, failed ? `${name} failed: ${work.why ?? ""}` : name + percent, 90);
  }

  private addBar(name: string): { root: HTMLElement; bar: HTMLProgressElement; label: HTMLElement } {
    const bar = el("progress", { max: 1, "aria-label": name });
    const label = el("span");
    const entry = { root: el("span", { class: "work" }, label, bar), bar, label };
    this.bars.set(name, entry);
    this.work.append(entry.root);
    return entry;
  }

  private notice(text: string): void {
    setText(this.text, text, 300);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.clear(), NOTICE_TIME);
  }

  private clear(): void {
    this.text.textContent = "";
  }
}
