/**
 * Bookmarks: named positions, kept in the link of the view and by the browser for the same files.
 */

import { el, grouped, shown, span } from "./dom";
import { readView, writeBookmarks, type Bookmark } from "./link";
import { List } from "./list";
import type { Model } from "./model";
import { store, stored } from "./storage";
import type { Pane } from "./tabs";

const LIMIT = 100;

export class BookmarksPane implements Pane {
  readonly id = "bookmarks";
  readonly title = "Bookmarks";
  readonly element: HTMLElement;
  items: Bookmark[] = [];
  private readonly list: List<Bookmark>;
  private readonly label = el("input", { type: "text", id: "bookmark-label", maxlength: 80, placeholder: "Label", autocomplete: "off" });
  private readonly key: string;

  constructor(private readonly model: Model, private readonly changed: () => void) {
    this.key = `bookmarks ${model.traces.map(trace => trace.path).join("|")}`;
    this.list = new List<Bookmark>("Bookmarks; Enter goes there, Delete removes", item => this.row(item), item => this.visit(item));
    this.list.element.addEventListener("keydown", event => {
      if (event.key === "Delete" && this.list.selected) this.remove(this.list.selected);
    });
    const form = el("form", { class: "field" }, this.label, el("button", { type: "submit" }, "Add bookmark here"));
    this.label.setAttribute("aria-label", "Label of the bookmark");
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.add(this.label.value.trim());
      this.label.value = "";
    });
    this.element = el("div", { class: "bookmarks" }, form, this.list.element);
    this.merge(readView(stored(this.key) ?? "").bookmarks);
  }

  /** Adds a bookmark at the current position, named after its function by default. */
  add(label = ""): void {
    const { source, n } = this.model.side;
    const row = source.rows.row(n);
    const name = label || shown(row?.function ?? row?.address ?? "", 40);
    this.items = this.items.filter(item => !(item.t === source.t && item.s === source.s && item.n === n));
    this.merge([{ t: source.t, s: source.s, n, label: name }]);
    this.model.notice(`Bookmark at instruction ${grouped(n)}.`);
  }

  merge(items: Bookmark[]): void {
    const exists = (item: Bookmark): boolean => this.items.some(one => one.t === item.t && one.s === item.s && one.n === item.n);
    const valid = items.filter(item => this.model.sources.some(source => source.t === item.t && source.s === item.s) && !exists(item));
    this.replace([...this.items, ...valid].slice(-LIMIT));
  }

  refresh(): void {
    const { source, n } = this.model.side;
    this.list.select(this.items.findIndex(item => item.t === source.t && item.s === source.s && item.n === n));
  }

  private visit(item: Bookmark): void {
    this.model.show(this.model.sourceOf(item.t, item.s), item.n);
  }

  private remove(item: Bookmark): void {
    this.replace(this.items.filter(one => one !== item));
  }

  private replace(items: Bookmark[]): void {
    this.items = items.sort((a, b) => a.t - b.t || a.s - b.s || a.n - b.n);
    this.list.set(this.items);
    store(this.key, writeBookmarks(this.items));
    this.changed();
  }

  private row(item: Bookmark): (Node | string)[] {
    const source = this.model.sourceOf(item.t, item.s);
    const remove = span("remove", "×");
    remove.title = "Remove";
    remove.addEventListener("click", event => {
      event.stopPropagation();
      this.remove(item);
    });
    return [span("entry", `#${grouped(item.n)}`), span("name", item.label || "(no label)", 80), span("where", this.model.sources.length > 1 ? source.info.name : "", 24), remove];
  }
}
