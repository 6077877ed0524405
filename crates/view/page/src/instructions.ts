/**
 * The instruction list of one side: a window of rows over any number of instructions.
 *
 * The list keeps the number of its first row as a fraction and draws only what is visible; the scrollbar
 * maps its length to the whole run. Rows come from the cache of the source and appear when they arrive.
 */

import type { Access, Row, TraceEvent } from "./api";
import { disassembly } from "./disassembly";
import { el, grouped, onFrame, setText, shown, span } from "./dom";
import type { Model, Side, Source } from "./model";

const ROW_HEIGHT = 20;
const MINIMUM_THUMB = 28;
/** The width of a character of the rows, in pixels. */
const CHARACTER = 7.4;

type Cells = [number: HTMLElement, address: HTMLElement, opcode: HTMLElement, text: HTMLElement, events: HTMLElement, name: HTMLElement, place: HTMLElement];
interface Line { element: HTMLElement; cells: Cells; key: string }

export class InstructionList {
  readonly element: HTMLElement;
  /** Called when the user scrolls; `top` is the first visible row. */
  onScroll: (top: number) => void = () => {};
  /** Whether a row is part of a difference between two traces. */
  differs: (n: number) => boolean = () => false;
  private readonly body: HTMLElement;
  private readonly bar: HTMLElement;
  private readonly thumb: HTMLElement;
  private readonly heading: HTMLElement;
  private readonly lines: Line[] = [];
  private readonly widths: number[] = [];
  private top = 1;
  private direction = 1;
  private shownSource: Source | null = null;
  private readonly draw = onFrame(() => this.render());

  constructor(private readonly model: Model, private readonly index: number) {
    const label = `Instructions of ${shown(this.side.source.trace.name, 60)}`;
    this.body = el("div", { class: "rows", role: "listbox", tabindex: 0, "aria-label": label });
    this.body.id = `rows${index}`;
    this.thumb = el("div", { class: "thumb" });
    this.bar = el("div", { class: "bar", "aria-hidden": "true" }, this.thumb);
    this.heading = el("h2", { class: "list-title" });
    const columns = ["Number", "Address", "Opcode", "Instruction", "Events and accesses", "Function", "Source line"];
    const head = el("div", { class: "row head", "aria-hidden": "true" }, ...columns.map((name, i) => el("span", { class: `c${i}` }, name)));
    this.element = el("section", { class: "list", "aria-label": label }, this.heading, head, el("div", { class: "window" }, this.body, this.bar));
    this.body.addEventListener("wheel", event => this.wheel(event), { passive: false });
    this.body.addEventListener("click", event => this.click(event));
    this.body.addEventListener("focus", () => this.activate());
    this.bar.addEventListener("pointerdown", event => this.drag(event));
    new ResizeObserver(() => this.draw()).observe(this.body);
    model.on("moved", () => this.moved());
    model.on("loaded", () => this.draw());
    model.on("reshaped", () => this.moved());
    this.moved();
  }

  /** Rows that fit entirely. */
  get page(): number {
    return Math.max(1, Math.floor(this.body.clientHeight / ROW_HEIGHT) - 1);
  }

  focus(): void {
    this.body.focus();
  }

  /** Scrolls so that `top` is the first row, without telling anyone. */
  scrollTo(top: number): void {
    const limit = Math.max(1, this.source.length + 1 - this.page);
    const target = Math.min(Math.max(1, top), this.source.lengthKnown ? limit : Math.max(limit, top));
    if (target !== this.top) this.direction = Math.sign(target - this.top);
    this.top = target;
    this.draw();
  }

  private get side(): Side {
    return this.model.sides[this.index] as Side;
  }

  private get source(): Source {
    return this.side.source;
  }

  private activate(): void {
    if (this.model.active !== this.index) this.model.go(this.side.n, this.index);
  }

  private moved(): void {
    const { n } = this.side;
    const page = this.page;
    if (this.shownSource !== this.source || n < this.top - page || n > this.top + 2 * page) this.scrollTo(n - Math.floor(page / 3));
    else if (n < this.top + 1) this.scrollTo(n - 2);
    else if (n > this.top + page - 1) this.scrollTo(n - page + 2);
    this.shownSource = this.source;
    this.element.classList.toggle("active", this.model.active === this.index && this.model.sides.length > 1);
    this.draw();
  }

  private scrolled(top: number): void {
    this.scrollTo(top);
    this.onScroll(this.top);
  }

  private wheel(event: WheelEvent): void {
    if (event.ctrlKey) return;
    event.preventDefault();
    const rows = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? event.deltaY / ROW_HEIGHT
      : event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY
      : event.deltaY * this.page;
    this.scrolled(this.top + rows);
  }

  private click(event: MouseEvent): void {
    const y = event.clientY - this.body.getBoundingClientRect().top;
    const n = Math.floor(this.top + y / ROW_HEIGHT);
    if (n <= this.source.length) this.model.go(n, this.index);
  }

  private drag(event: PointerEvent): void {
    event.preventDefault();
    const track = this.bar.clientHeight - this.thumb.offsetHeight;
    const offset = event.clientY - this.thumb.getBoundingClientRect().top;
    const grip = event.target === this.thumb ? offset : this.thumb.offsetHeight / 2;
    const follow = (move: PointerEvent): void => {
      const y = move.clientY - this.bar.getBoundingClientRect().top - grip;
      const rows = Math.max(0, this.source.length + 1 - this.page);
      this.scrolled(1 + Math.round(Math.min(1, Math.max(0, y / Math.max(1, track))) * rows));
    };
    this.bar.setPointerCapture(event.pointerId);
    this.bar.addEventListener("pointermove", follow);
    this.bar.addEventListener("lostpointercapture", () => this.bar.removeEventListener("pointermove", follow), { once: true });
    follow(event);
  }

  private render(): void {
    const height = this.body.clientHeight;
    if (height === 0) return;
    const first = Math.floor(this.top);
    const count = Math.ceil(height / ROW_HEIGHT) + 1;
    this.source.rows.want(first, first + count, this.direction);
    while (this.lines.length < count) this.addLine();
    this.setColumns(first, count);
    let current = "";
    const { length } = this.lines;
    // A row keeps its element while it is visible, so that scrolling fills only the rows that appear.
    for (let n = first; n < first + length; n++) {
      const line = this.lines[n % length] as Line;
      const visible = n < first + count && (n <= this.source.length || (n === this.source.length + 1 && this.source.rows.end !== null));
      line.element.hidden = !visible;
      if (!visible) continue;
      line.element.style.transform = `translateY(${(n - this.top) * ROW_HEIGHT}px)`;
      this.fill(line, n);
      if (n === this.side.n) current = line.element.id;
    }
    if (current) this.body.setAttribute("aria-activedescendant", current);
    else this.body.removeAttribute("aria-activedescendant");
    this.renderBar(height);
    const { source } = this;
    setText(this.heading, `${source.trace.name} · ${source.info.name}`, 80);
  }

  /** Columns as wide as the numbers, addresses and opcodes in view; they do not become narrower again. */
  private setColumns(first: number, count: number): void {
    const widths = [grouped(this.source.length).length, 8, 6];
    for (let n = first; n < first + count; n++) {
      const row = this.source.rows.row(n);
      if (row) [row.address, row.opcode].forEach((text, i) => { widths[i + 1] = Math.max(widths[i + 1] ?? 0, Math.min(18, text.length)); });
    }
    widths.forEach((width, i) => {
      if (width <= (this.widths[i] ?? 0)) return;
      this.widths[i] = width;
      this.element.style.setProperty(["--n", "--a", "--o"][i] as string, `${Math.ceil(width * CHARACTER)}px`);
    });
  }

  private renderBar(height: number): void {
    const rows = this.source.length + 1;
    const size = Math.max(MINIMUM_THUMB, Math.min(height, height * (this.page / rows)));
    const position = (this.top - 1) / Math.max(1, rows - this.page);
    this.thumb.style.height = `${size}px`;
    this.thumb.style.transform = `translateY(${Math.min(1, position) * (height - size)}px)`;
    this.bar.classList.toggle("idle", this.page >= rows);
  }

  private addLine(): void {
    const cells = Array.from({ length: 7 }, (_, i) => el("span", { class: `c${i}` })) as Cells;
    const element = el("div", { class: "row", role: "option" }, ...cells);
    element.id = `row${this.index}-${this.lines.length}`;
    this.lines.push({ element, cells, key: "" });
    this.body.append(element);
  }

  private fill(line: Line, n: number): void {
    const { source, side } = this;
    const row = source.rows.row(n);
    const selected = n === side.n;
    const same = row !== undefined && source.rows.row(n - 1)?.function === row.function && n !== Math.floor(this.top);
    const key = `${source.t} ${source.s} ${n} ${row ? 1 : 0} ${selected} ${same} ${this.differs(n)} ${source.lengthKnown}`;
    if (line.key === key) return;
    line.key = key;
    line.element.className = "row";
    line.element.classList.toggle("current", selected);
    line.element.classList.toggle("pending", !row && n <= source.length);
    line.element.classList.toggle("skipped", row?.not_executed === true);
    line.element.classList.toggle("differs", this.differs(n));
    line.element.setAttribute("aria-selected", String(selected));
    line.element.setAttribute("aria-posinset", String(n));
    line.element.setAttribute("aria-setsize", source.lengthKnown ? String(source.length + 1) : "-1");
    const atEnd = n > source.length;
    if (row) this.fillRow(line.cells, row, same);
    else this.fillEmpty(line.cells, n, atEnd ? source.rows.tail : []);
    line.element.classList.toggle("end", atEnd);
  }

  private fillRow(cells: Cells, row: Row, same: boolean): void {
    const [number, address, opcode, text, events, name, place] = cells;
    setText(number, grouped(row.n));
    setText(address, row.address);
    setText(opcode, row.opcode, 20);
    disassembly(text, row.text);
    if (row.not_executed) text.append(span("badge note", "not executed"));
    if (row.taken !== undefined) text.append(span("flow", row.taken ? " ↪" : " ⤓"));
    text.title = shown(row.text, 400) + (row.taken === undefined ? "" : row.taken ? " (taken)" : " (not taken)");
    events.replaceChildren(...row.events.map(badge), ...row.accesses.map(access));
    setText(name, row.function === null ? "" : row.offset ? `${shown(row.function, 80)}+0x${row.offset.toString(16)}` : row.function, 90);
    if (row.function !== null) name.title = shown(row.function, 2000);
    name.classList.toggle("same", same);
    const file = row.file === null ? undefined : this.source.rows.files[row.file];
    setText(place, file === undefined ? "" : `${file.slice(file.lastIndexOf("/") + 1)}:${row.line ?? "?"}`, 60);
    if (file !== undefined) place.title = shown(`${file}:${row.line ?? "?"}`, 2000);
  }

  private fillEmpty(cells: Cells, n: number, tail: TraceEvent[]): void {
    cells.forEach(cell => {
      cell.replaceChildren();
      cell.removeAttribute("title");
    });
    const [number, , , , events] = cells;
    if (n > this.source.length) number.textContent = "end";
    else setText(number, grouped(n));
    events.replaceChildren(...tail.map(badge));
  }
}

const KINDS = new Set(["exception", "return", "gap", "context", "note", "software", "finding"]);

function badge(event: TraceEvent): HTMLElement {
  const element = span(`badge ${KINDS.has(event.kind) ? event.kind : "note"}`, event.kind === "note" ? event.text : `${shown(event.kind, 16)}: ${event.text}`, 90);
  element.title = shown(event.text, 2000);
  return element;
}

function access(access: Access): HTMLElement {
  const arrow = access.kind === "read" ? "→" : "←";
  const element = span(`access ${access.kind}`, `[${access.address}] ${arrow} ${access.value ?? ".."}`, 60);
  element.title = `${access.kind} of ${access.size} bytes at ${access.address}`;
  return element;
}
