/** The call tree of the whole run, merged by function; children are requested when a function is opened. */

import { request, type TreeNode } from "./api";
import { el, grouped, setText, span } from "./dom";
import { List } from "./list";
import type { Model, Source } from "./model";
import type { Pane } from "./tabs";

interface Entry { node: TreeNode; path: string[]; open: boolean; leaf: boolean }

export class TreePane implements Pane {
  readonly id = "tree";
  readonly title = "Call tree";
  readonly element: HTMLElement;
  private readonly note = el("p", { class: "empty" });
  private readonly list: List<Entry>;
  private entries: Entry[] = [];
  private shownFor: Source | null = null;
  private whole = 1;

  constructor(private readonly model: Model, goTo: (address: string) => void) {
    this.list = new List<Entry>("Call tree; Enter opens and closes, Shift+Enter goes to the function", entry => this.row(entry), (entry, index, event) => {
      if ((event as KeyboardEvent | MouseEvent).shiftKey) goTo(entry.node.address);
      else void this.toggle(entry, index);
    });
    const columns = ["Calls", "Own", "Total"].map(name => span("number", name));
    this.element = el("div", { class: "tree" }, el("div", { class: "columns", "aria-hidden": "true" }, span("name", "Function"), ...columns), this.note, this.list.element);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source } = this.model.side;
    if (this.shownFor === source) return;
    this.entries = await this.children(source, [], signal);
    if (signal.aborted) return;
    const running = source.progress?.calls.state === "running";
    this.shownFor = running ? null : source;
    this.whole = Math.max(1, ...this.entries.map(entry => entry.node.total));
    setText(this.note, running ? "Calls are still being followed." : this.entries.length === 0 ? source.progress?.calls.why ?? "No call is known." : "", 300);
    this.list.set(this.entries);
    const [only] = this.entries;
    if (only && this.entries.length === 1) await this.toggle(only, 0);
  }

  private async children(source: Source, path: string[], signal: AbortSignal): Promise<Entry[]> {
    const { nodes } = await request("tree", { t: source.t, s: source.s, path: path.join(",") }, signal);
    return nodes.map(node => ({ node, path: [...path, node.address], open: false, leaf: false }));
  }

  private async toggle(entry: Entry, index: number): Promise<void> {
    const { entries } = this;
    if (entry.open) {
      let end = index + 1;
      while (end < entries.length && (entries[end] as Entry).path.length > entry.path.length) end++;
      entries.splice(index + 1, end - index - 1);
      entry.open = false;
    } else {
      try {
        const children = await this.children(this.model.side.source, entry.path, new AbortController().signal);
        if (entries !== this.entries || entry.open) return;
        entries.splice(entries.indexOf(entry) + 1, 0, ...children);
        entry.leaf = children.length === 0;
        entry.open = !entry.leaf;
      } catch (error) {
        this.model.report(error);
      }
    }
    this.list.set(entries, entries.indexOf(entry));
  }

  private row({ node, path, open, leaf }: Entry): (Node | string)[] {
    const share = span("share", "");
    share.style.width = `${(100 * node.total) / this.whole}%`;
    const name = span("name", `${leaf ? "  " : open ? "▾ " : "▸ "}${node.function ?? node.address}`, 120);
    name.style.paddingLeft = `${(path.length - 1) * 12}px`;
    return [share, name, ...[node.calls, node.own, node.total].map(value => span("number", grouped(value)))];
  }
}
