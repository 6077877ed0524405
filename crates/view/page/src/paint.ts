/**
 * Drawing on the canvas of the timeline: colors of the theme, slices, marks and ticks.
 */

import { shown } from "./dom";

const NAMES = ["bg", "panel", "text", "muted", "line", "grid", "accent", "selection", "exception", "return", "gap", "context", "note", "software", "finding"] as const;
export type Colors = Record<(typeof NAMES)[number], string> & { dark: boolean };

/** The colors of the style sheet, resolved for the theme in use. */
export function colors(): Colors {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const result: Record<string, string> = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    result[name] = getComputedStyle(probe).color;
  }
  probe.style.color = "light-dark(rgb(0, 0, 0), rgb(1, 1, 1))";
  const dark = getComputedStyle(probe).color === "rgb(1, 1, 1)";
  probe.remove();
  return { ...result, dark } as Colors;
}

const HUES = [208, 172, 262, 338, 192, 30, 228, 144, 300, 48, 216, 12];

/** A quiet color for a name, the same wherever it appears. */
export function sliceColors(name: string, dark: boolean): { fill: string; edge: string; text: string } {
  let hash = 2166136261;
  for (let i = 0; i < Math.min(name.length, 64); i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 2246822519);
  hash ^= hash >>> 13;
  const hue = HUES[(hash >>> 8) % HUES.length] as number;
  const tone = ((hash >>> 4) & 3) * 2;
  return dark
    ? { fill: `hsl(${hue} 38% ${28 + tone}%)`, edge: `hsl(${hue} 40% ${50 + tone}%)`, text: "#eef2f8" }
    : { fill: `hsl(${hue} 62% ${78 + tone}%)`, edge: `hsl(${hue} 40% ${55 + tone}%)`, text: "#17202c" };
}

/** Text cut to a width, for a font of fixed width. */
export function drawText(context: CanvasRenderingContext2D, text: string, x: number, y: number, width: number, character: number): void {
  const room = Math.floor(width / character);
  if (room >= 3 || text.length <= room) context.fillText(shown(text, room), x, y);
}

/** The kinds of marks in the order of drawing: what matters most is on top. */
export const MARK_ORDER = ["software", "note", "return", "context", "exception", "gap", "finding"];

/** A mark: a symbol where there is room, else a thin line in the row of its kind. */
export function drawMark(context: CanvasRenderingContext2D, kind: string, x: number, y: number, dense: boolean): void {
  context.beginPath();
  if (dense) {
    const row = MARK_ORDER.indexOf(kind);
    context.rect(x - 0.75, y + 5 - (row < 0 ? 1 : row) * 2, 1.5, 3);
    context.fill();
    return;
  }
  if (kind === "exception") triangle(context, x, y, 4);
  else if (kind === "return") triangle(context, x, y, -4);
  else if (kind === "context") diamond(context, x, y, 4);
  else if (kind === "software") context.arc(x, y, 3, 0, 2 * Math.PI);
  else if (kind === "gap") context.rect(x - 2.5, y - 5, 5, 10);
  else if (kind === "finding") {
    context.rect(x - 1.25, y - 5, 2.5, 6);
    context.rect(x - 1.25, y + 2.5, 2.5, 2.5);
  } else context.rect(x - 1, y - 3, 2, 6);
  context.fill();
}

function triangle(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.moveTo(x - 4, y - size * 0.9);
  context.lineTo(x + 4, y - size * 0.9);
  context.lineTo(x, y + size);
  context.closePath();
}

function diamond(context: CanvasRenderingContext2D, x: number, y: number, size: number): void {
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.closePath();
}

/** Round positions in a range, at least `gap` apart, and their distance. */
export function ticks(from: number, to: number, gap: number): { step: number; at: number[] } {
  const power = 10 ** Math.floor(Math.log10(Math.max(gap, 1e-9)));
  const step = Math.max(1, power * ([1, 2, 5, 10].find(factor => power * factor >= gap) ?? 10));
  const at: number[] = [];
  for (let value = Math.ceil(from / step) * step; value <= to; value += step) at.push(value);
  return { step, at };
}
