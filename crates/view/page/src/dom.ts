/**
 * Elements and text: building nodes without markup, and making names of the trace safe to show.
 *
 * Everything that comes from the server reaches the document through `textContent`, `title` or a canvas.
 */

type Attribute = string | number | boolean | ((event: never) => void);
type Child = Node | string | null;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Attribute> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null) element.append(child);
  return element;
}

/** The element of index.html with this id. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
const TITLE_LIMIT = 2000;

/** Text of the trace in one line, without characters that change how the rest is shown. */
export function shown(text: string, limit = 160): string {
  const cut = text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
  return cut.replace(CONTROL, "\ufffd");
}

export function setText(element: HTMLElement, text: string, limit = 160): void {
  const value = shown(text, limit);
  if (element.textContent !== value) element.textContent = value;
  if (text.length > 24) element.title = shown(text, TITLE_LIMIT);
  else if (element.title) element.removeAttribute("title");
}

export function span(className: string, text: string, limit = 160): HTMLSpanElement {
  const element = el("span", { class: className });
  setText(element, text, limit);
  return element;
}

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 1234567 as "1,234,567". */
export function grouped(value: number | bigint): string {
  return GROUPED.format(value);
}

/** A time with its unit; nanoseconds in the largest unit that keeps `resolution` visible. */
export function timeText(time: string, unit: string, resolution = 1): string {
  const value = Number(time);
  if (unit !== "ns" || !Number.isSafeInteger(value)) return `${grouped(BigInt(time))} ${unit}`;
  const [name, scale] = value >= 1e9 ? ["s", 1e9] : value >= 1e6 ? ["ms", 1e6] : value >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / Math.max(1, resolution))));
  return `${(value / scale).toFixed(digits)} ${name}`;
}

/** Calls `draw` at the next animation frame, once however often it is asked for. */
export function onFrame(draw: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}
