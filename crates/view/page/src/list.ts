/**
 * A listbox of rows of one height, of which only the visible ones are in the document.
 *
 * Arrow keys move within the list, Enter or a click picks a row. For lists up to some 100,000 rows.
 */

import { el } from "./dom";

const HEIGHT = 20;
let lists = 0;

export class List<T> {
  readonly element: HTMLElement;
  private readonly spacer: HTMLElement;
  private readonly prefix = `list${lists++}`;
  private readonly visible = new Map<number, HTMLElement>();
  private items: T[] = [];
  private current = -1;

  constructor(label: string, private readonly render: (item: T, index: number) => (Node | string)[], private readonly pick: (item: T, index: number, event: Event) => void = () => {}) {
    this.spacer = el("div", { class: "spacer", role: "presentation" });
    this.element = el("div", { class: "listbox", role: "listbox", tabindex: 0, "aria-label": label }, this.spacer);
    this.element.addEventListener("scroll", () => this.draw());
    this.element.addEventListener("keydown", event => this.key(event));
    this.element.addEventListener("click", event => this.click(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  set(items: T[], current = -1): void {
    this.items = items;
    for (const element of this.visible.values()) element.remove();
    this.visible.clear();
    this.spacer.style.height = `${items.length * HEIGHT}px`;
    this.select(current);
  }

  /** The current row, or null. */
  get selected(): T | null {
    return this.items[this.current] ?? null;
  }

  select(index: number, context = 1): void {
    this.current = index < this.items.length ? index : -1;
    if (this.current >= 0) {
      const top = this.current * HEIGHT;
      const view = this.element;
      const height = view.clientHeight;
      if (top < view.scrollTop + HEIGHT || top > view.scrollTop + height - 2 * HEIGHT) {
        const above = context > 1 ? Math.floor(height / HEIGHT / 3) : context;
        const up = top < view.scrollTop + HEIGHT;
        view.scrollTop = up || context > 1 ? top - above * HEIGHT : top - height + 2 * HEIGHT;
      }
    }
    this.draw();
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.element.scrollTop / HEIGHT) - 2);
    const last = Math.min(this.items.length - 1, Math.ceil((this.element.scrollTop + this.element.clientHeight) / HEIGHT) + 2);
    for (const [index, element] of this.visible) {
      if (index >= first && index <= last) continue;
      element.remove();
      this.visible.delete(index);
    }
    for (let index = first; index <= last; index++) {
      let element = this.visible.get(index);
      if (!element) {
        element = el("div", { class: "item", role: "option", id: `${this.prefix}-${index}` }, ...this.render(this.items[index] as T, index));
        element.setAttribute("aria-posinset", String(index + 1));
        element.setAttribute("aria-setsize", String(this.items.length));
        element.style.transform = `translateY(${index * HEIGHT}px)`;
        this.visible.set(index, element);
        this.element.append(element);
      }
      element.setAttribute("aria-selected", String(index === this.current));
    }
    if (this.visible.has(this.current)) this.element.setAttribute("aria-activedescendant", `${this.prefix}-${this.current}`);
    else this.element.removeAttribute("aria-activedescendant");
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / HEIGHT) - 1);
    const moves: Record<string, number> = {
      ArrowDown: this.current + 1, ArrowUp: this.current - 1, PageDown: this.current + page, PageUp: this.current - page, Home: 0, End: this.items.length - 1,
    };
    const target = moves[event.key];
    if (target !== undefined) this.select(Math.min(Math.max(0, target), this.items.length - 1));
    else if (event.key === "Enter" && this.selected !== null) this.pick(this.selected, this.current, event);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private click(event: MouseEvent): void {
    const row = (event.target as Element).closest(".item");
    const index = row ? Number(row.id.slice(this.prefix.length + 1)) : -1;
    const item = this.items[index];
    if (item === undefined) return;
    this.select(index);
    this.pick(item, index, event);
  }
}
