/**
 * What the timeline shows of one source: calls, marks and times of a window around the view.
 *
 * The window is wider than the view and its level of detail is one pixel, so that panning and zooming
 * draw at once from what is there and details follow.
 */

import { Latest, request, type Marks, type Slice, type StackInfo } from "./api";
import { Clock } from "./clock";
import type { Model, Source } from "./model";
import { MARK_ORDER } from "./paint";

export const LANE = 16;
export const HEADER = 18;
const MARK_PIXELS = 3;
const MOST_DEPTHS = 200;
const COLLAPSED_DEPTHS = 1;

export interface Span { from: number; to: number }
interface Window extends Span { min: number; depth: number; provisional: boolean }
/** `room` is the distance to the nearest mark that it could hide, in instructions. */
export interface Mark { kind: string; n: number; count: number; text: string; room: number }

export class Track {
  readonly latest = new Latest();
  stacks: StackInfo[] = [];
  names: string[] = [];
  /** Slices by lane: the lanes of all stacks, one after the other; each sorted by start. */
  lanes: Slice[][] = [];
  /** Marks by kind, in the order of drawing. */
  marks = new Map<string, Mark[]>();
  clock: Clock | null = null;
  /** A clock of the whole run; the time axis needs it before it can show anything. */
  coarse: Clock | null = null;
  collapsed = false;
  private loaded: Window | null = null;
  private wanted: Window | null = null;
  private timer = 0;

  constructor(readonly source: Source, private readonly model: Model, private readonly redraw: () => void) {}

  depths(stack: StackInfo): number {
    return this.collapsed ? Math.min(stack.deepest + 1, COLLAPSED_DEPTHS) : stack.deepest + 1;
  }

  get height(): number {
    return HEADER + 4 + (this.stacks.length === 0 ? LANE : 0) + this.stacks.reduce((sum, stack) => sum + this.depths(stack) * LANE, 0);
  }

  /** Forgets that what is shown is current: the server knows more now. */
  outdated(): void {
    if (this.loaded?.provisional) this.loaded = null;
  }

  toAxis(n: number, byTime: boolean): number {
    return byTime ? this.bestClock?.timeAt(n) ?? 0 : n;
  }

  toNumber(axis: number, byTime: boolean): number {
    return byTime ? this.bestClock?.numberAt(axis) ?? 1 : axis;
  }

  private get bestClock(): Clock | null {
    return this.clock ?? this.coarse;
  }

  /** Requests what is missing for a view of this width in pixels. */
  update(view: Span, pixels: number, byTime: boolean, firstDepth: number): void {
    if (byTime && this.coarse === null) return;
    const span = byTime ? { from: this.coarse!.numberAt(view.from), to: this.coarse!.numberAt(view.to) } : view;
    const from = Math.max(1, Math.floor(span.from));
    const to = Math.max(from, Math.min(this.source.length, Math.ceil(span.to)));
    if (span.from > this.source.length || span.to < 1) return;
    const min = Math.max(1, 2 ** Math.floor(Math.log2(Math.max(1, (span.to - span.from) / pixels))));
    const depth = Math.max(0, Math.floor(firstDepth / 100) * 100);
    const covers = (one: Window | null): boolean => one !== null && one.from <= from && one.to >= to && one.min <= min && one.depth === depth && one.to - one.from <= 16 * (to - from + 8);
    if (covers(this.loaded) || covers(this.wanted)) return;
    const margin = Math.ceil((to - from) / 2);
    const window = { from: Math.max(1, from - margin), to: Math.max(from, Math.min(this.source.length, to + margin)), min, depth, provisional: false };
    this.wanted = window;
    const signal = this.latest.next();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.load(window, byTime ? view : null, pixels, signal), this.loaded ? 30 : 0);
  }

  private async load(window: Window, times: Span | null, pixels: number, signal: AbortSignal): Promise<void> {
    const { t, s } = this.source;
    const range = { t, s, from: window.from, to: window.to };
    const buckets = Math.max(1, Math.min(4000, Math.ceil((2 * pixels) / MARK_PIXELS), window.to - window.from + 1));
    try {
      const [calls, marks, clock] = await Promise.all([
        request("calls", { ...range, min: window.min, depth: window.depth, depths: MOST_DEPTHS, stack: "all" }, signal),
        request("marks", { ...range, buckets }, signal),
        this.times(window, times, pixels, signal),
      ]);
      window.provisional = calls.state === "running" || this.source.busy;
      this.stacks = calls.stacks;
      this.names = calls.names;
      this.arrange(calls.slices);
      this.marks = byKind(marks);
      this.clock = clock;
      this.loaded = window;
      this.redraw();
    } catch (error) {
      this.model.report(error);
    } finally {
      if (this.wanted === window) this.wanted = null;
    }
  }

  private async times(window: Window, view: Span | null, pixels: number, signal: AbortSignal): Promise<Clock | null> {
    if (!this.source.info.has.times || window.to <= window.from) return null;
    if (view === null || this.coarse === null) return Clock.load(this.source, window.from, window.to, signal);
    const margin = (view.to - view.from) / 2;
    return this.coarse.narrowed(this.source, view.from - margin, view.to + margin, (view.to - view.from) / pixels, signal);
  }

  private arrange(slices: Slice[]): void {
    const firstLane: number[] = [];
    let lanes = 0;
    for (const stack of this.stacks) {
      firstLane.push(lanes);
      lanes += stack.deepest + 1;
    }
    this.lanes = Array.from({ length: lanes }, () => []);
    for (const slice of slices) this.lanes[(firstLane[slice[0]] ?? 0) + slice[1]]?.push(slice);
    for (const lane of this.lanes) lane.sort((a, b) => a[2] - b[2]);
  }
}

function byKind({ kinds, buckets }: Marks): Map<string, Mark[]> {
  const marks = new Map<string, Mark[]>(MARK_ORDER.map(kind => [kind, []]));
  for (const [, kind, count, n, text] of buckets) {
    const name = kinds[kind] ?? "note";
    (marks.get(name) ?? marks.get("note"))?.push({ kind: name, n, count, text, room: Infinity });
  }
  const [exceptions, returns] = [marks.get("exception") ?? [], marks.get("return") ?? []];
  for (const list of [[...exceptions, ...returns], ...marks.values()]) measure(list, list === returns);
  return marks;
}

function measure(marks: Mark[], sortOnly: boolean): void {
  marks.sort((a, b) => a.n - b.n);
  if (sortOnly) return;
  marks.forEach((mark, i) => {
    mark.room = Math.min(mark.n - (marks[i - 1]?.n ?? -Infinity), (marks[i + 1]?.n ?? Infinity) - mark.n);
  });
}
