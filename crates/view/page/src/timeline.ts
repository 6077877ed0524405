/**
 * The timeline: for each source a track with marks and the calls of its stacks as nested slices.
 *
 * The axis counts instructions, or times when every source has them. Draws on a canvas once per frame
 * at most; what it draws comes from the tracks.
 */

import type { Slice } from "./api";
import { absolute, Clock } from "./clock";
import { byId, grouped, onFrame, shown, timeText } from "./dom";
import type { Model } from "./model";
import { colors, drawMark, drawText, sliceColors, ticks, type Colors } from "./paint";
import { HEADER, LANE, Track, type Mark, type Span } from "./tracks";

const GUTTER = 132;
const RULER = 34;
const OVERVIEW = 8;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const NARROWEST = 4;
/** The least distance of marks of one kind that are drawn as symbols. */
const SYMBOL = 9;

interface Hit { track: Track; n: number; mark: Mark | null; slice: Slice | null }

export class Timeline {
  readonly tracks: Track[];
  view: Span = { from: 1, to: 1001 };
  byTime = false;
  onChange: () => void = () => {};
  private readonly canvas = byId<HTMLCanvasElement>("timeline");
  private readonly tip = byId("tip");
  private readonly context = this.canvas.getContext("2d", { alpha: false }) as CanvasRenderingContext2D;
  private palette: Colors = colors();
  private width = 0;
  private height = 0;
  private character = 7;
  private scroll = 0;
  private fitted = true;
  readonly redraw = onFrame(() => this.draw());

  constructor(private readonly model: Model) {
    this.tracks = model.sources.map(source => new Track(source, model, () => this.redraw()));
    if (this.tracks.length > 4) for (const track of this.tracks) track.collapsed = true;
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    model.on("moved", () => this.reveal());
    model.on("loaded", () => this.loaded());
    this.canvas.addEventListener("wheel", event => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", event => this.press(event));
    this.canvas.addEventListener("pointermove", event => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.canvas.addEventListener("dblclick", event => this.enter(event));
  }

  recolor(): void {
    this.palette = colors();
    this.redraw();
  }

  /** Whether every source has times. */
  get canShowTime(): boolean {
    return this.model.sources.every(source => source.info.has.times);
  }

  /** Switches between instruction numbers and times; the current instruction keeps its place. */
  async setAxis(byTime: boolean): Promise<void> {
    if (byTime === this.byTime || (byTime && !this.canShowTime)) return;
    try {
      if (byTime) await Promise.all(this.tracks.map(track => this.loadCoarse(track)));
    } catch (error) {
      this.model.report(error);
      return;
    }
    const whole = this.whole;
    const share = (this.view.to - this.view.from) / (whole.to - whole.from);
    this.byTime = byTime;
    const next = this.whole;
    const center = this.active.toAxis(this.model.side.n, byTime);
    const half = ((next.to - next.from) * share) / 2;
    this.fitted = share >= 0.999;
    this.look(this.fitted ? next : { from: center - half, to: center + half });
  }

  /** Whether the view is the whole run, and grows with what is known of it. */
  get shownWhole(): boolean {
    return this.fitted;
  }

  /** Shows a range that may not be known yet. */
  restore(view: Span): void {
    this.view = { from: view.from, to: Math.max(view.to, view.from + NARROWEST) };
    this.fitted = false;
    this.redraw();
  }

  look(view: Span): void {
    const whole = this.whole;
    const size = Math.min(Math.max(NARROWEST, view.to - view.from), whole.to - whole.from);
    const from = Math.min(Math.max(whole.from, view.from), whole.to - size);
    this.view = { from, to: from + size };
    this.fitted = size >= (whole.to - whole.from) * 0.999;
    this.redraw();
    this.onChange();
  }

  /** Zooms by a factor around a place of the axis, by default the current instruction. */
  zoom(factor: number, around?: number): void {
    const here = this.active.toAxis(this.model.side.n, this.byTime) + (this.byTime ? 0 : 0.5);
    const visible = here >= this.view.from && here <= this.view.to;
    const center = around ?? (visible ? here : (this.view.from + this.view.to) / 2);
    this.look({ from: center - (center - this.view.from) * factor, to: center + (this.view.to - center) * factor });
  }

  pan(share: number): void {
    const by = (this.view.to - this.view.from) * share;
    this.look({ from: this.view.from + by, to: this.view.to + by });
  }

  showAll(): void {
    this.look(this.whole);
  }

  toggleTrack(): void {
    this.active.collapsed = !this.active.collapsed;
    this.redraw();
  }

  scrollBy(pixels: number): void {
    this.scroll += pixels;
    this.redraw();
  }

  private get active(): Track {
    return this.tracks.find(track => track.source === this.model.side.source) ?? (this.tracks[0] as Track);
  }

  private get whole(): Span {
    if (!this.byTime) return { from: 1, to: Math.max(1 + NARROWEST, ...this.model.sources.map(source => source.length + 1)) };
    const clocks = this.tracks.flatMap(track => track.coarse ?? []);
    const from = Math.min(...clocks.map(clock => clock.first));
    return { from, to: Math.max(from + NARROWEST, ...this.tracks.map(track => track.coarse?.timeAt(track.source.length) ?? 0)) };
  }

  private async loadCoarse(track: Track): Promise<void> {
    const { source } = track;
    track.coarse ??= await Clock.load(source, 1, source.length, new AbortController().signal);
    if (track.coarse === null) throw new Error(`The times of ${source.info.name} are not known yet.`);
  }

  private loaded(): void {
    if (this.fitted) this.view = this.whole;
    for (const track of this.tracks) track.outdated();
    this.redraw();
  }

  /** Brings the current instruction and its track into view. */
  private reveal(): void {
    const at = this.active.toAxis(this.model.side.n, this.byTime);
    const { from, to } = this.view;
    if (at < from || at >= to) {
      const near = Math.abs(at - (at < from ? from : to)) < (to - from) / 2;
      const shift = near ? (at < from ? at - from - (to - from) * 0.1 : at - to + (to - from) * 0.1) : at - (from + to) / 2;
      this.look({ from: from + shift, to: to + shift });
    }
    this.redraw();
  }

  private toX(axis: number): number {
    return GUTTER + ((axis - this.view.from) / (this.view.to - this.view.from)) * (this.width - GUTTER);
  }

  private fromX(x: number): number {
    return this.view.from + ((x - GUTTER) / (this.width - GUTTER)) * (this.view.to - this.view.from);
  }

  private resize(): void {
    const scale = devicePixelRatio;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const [width, height] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.font = FONT;
    this.character = this.context.measureText("0").width;
    this.context.textBaseline = "middle";
  }

  private draw(): void {
    if (this.canvas.clientWidth === 0) return;
    this.resize();
    const { context, palette } = this;
    const content = this.tracks.reduce((sum, track) => sum + track.height, 0);
    const room = this.height - RULER - OVERVIEW;
    this.scroll = Math.min(Math.max(0, this.scroll), Math.max(0, content - room));
    context.fillStyle = palette.bg;
    context.fillRect(0, 0, this.width, this.height);
    this.drawGrid();
    context.save();
    context.beginPath();
    context.rect(0, RULER + OVERVIEW, this.width, room);
    context.clip();
    this.eachTrack((track, y) => this.drawTrack(track, y));
    context.restore();
    this.drawOverview();
    if (content > room) {
      context.fillStyle = palette.muted;
      context.fillRect(this.width - 5, RULER + OVERVIEW + (this.scroll / content) * room, 4, (room / content) * room);
    }
  }

  /** Calls `visit` with each visible track and its top. */
  private eachTrack(visit: (track: Track, y: number) => void): void {
    let y = RULER + OVERVIEW - this.scroll;
    for (const track of this.tracks) {
      const { height } = track;
      if (y + height > RULER + OVERVIEW && y < this.height) visit(track, y);
      y += height;
    }
  }

  private drawOverview(): void {
    const { context, palette, whole } = this;
    const scale = (this.width - GUTTER) / (whole.to - whole.from);
    const x = (axis: number): number => GUTTER + (axis - whole.from) * scale;
    context.fillStyle = palette.panel;
    context.fillRect(0, 0, this.width, OVERVIEW);
    context.fillStyle = palette.line;
    context.fillRect(GUTTER, OVERVIEW - 1, this.width - GUTTER, 1);
    context.fillStyle = palette.muted;
    context.fillRect(x(this.view.from), 2, Math.max(4, (this.view.to - this.view.from) * scale), OVERVIEW - 4);
    context.fillStyle = palette.accent;
    context.fillRect(x(this.active.toAxis(this.model.side.n, this.byTime)) - 1, 0, 2, OVERVIEW);
  }

  private drawGrid(): void {
    const { context, palette, view } = this;
    const { step, at } = ticks(view.from, view.to, ((view.to - view.from) / (this.width - GUTTER)) * 110);
    const unit = this.active.source.info.time_unit;
    const clock = this.active.clock ?? this.active.coarse;
    context.fillStyle = palette.panel;
    context.fillRect(0, OVERVIEW, this.width, RULER);
    for (const value of at) {
      const x = Math.round(this.toX(value)) + 0.5;
      if (x < GUTTER) continue;
      context.fillStyle = palette.grid;
      context.fillRect(x - 0.5, OVERVIEW + RULER, 1, this.height);
      context.fillStyle = palette.line;
      context.fillRect(x - 0.5, OVERVIEW + 4, 1, RULER - 4);
      context.fillStyle = palette.text;
      const n = this.byTime ? Math.floor(this.active.toNumber(value, true)) : value;
      const time = clock && unit ? timeText(absolute(this.byTime ? value : clock.timeAt(value)), unit, (this.byTime ? step : clock.timeAt(value + step) - clock.timeAt(value)) / (this.byTime ? 1 : 50)) : "";
      const number = n >= 1 && n <= this.active.source.length ? `#${grouped(n)}` : "";
      context.fillText(this.byTime ? time : number, x + 4, OVERVIEW + 11);
      context.fillStyle = palette.muted;
      context.fillText(this.byTime ? number : time, x + 4, OVERVIEW + 25);
    }
    context.fillStyle = palette.muted;
    context.fillText(this.byTime ? "time" : "instruction", 8, OVERVIEW + 11);
    if (this.byTime || unit) context.fillText(this.byTime ? "instruction" : "time", 8, OVERVIEW + 25);
    context.fillStyle = palette.line;
    context.fillRect(0, OVERVIEW + RULER - 1, this.width, 1);
  }

  private drawTrack(track: Track, top: number): void {
    const { context, palette } = this;
    const firstDepth = Math.max(0, Math.floor((RULER - top - HEADER) / LANE));
    track.update(this.view, this.width - GUTTER, this.byTime, firstDepth);
    const active = this.model.sides.some(side => side.source === track.source);
    context.save();
    context.beginPath();
    context.rect(GUTTER, top, this.width - GUTTER, track.height);
    context.clip();
    this.drawGaps(track, top);
    this.eachLane(track, top, (lane, y) => this.drawLane(track, lane, y));
    this.drawMarks(track, top + HEADER / 2 + 1);
    if (active) this.drawPosition(track, top);
    context.restore();
    this.drawGutter(track, top, active);
    context.fillStyle = palette.line;
    context.fillRect(0, top + track.height - 1, this.width, 1);
  }

  private eachLane(track: Track, top: number, visit: (lane: Slice[], y: number, stack: number, depth: number) => void): void {
    let lane = 0;
    let y = top + HEADER;
    track.stacks.forEach((stack, index) => {
      const depths = track.depths(stack);
      for (let depth = 0; depth < depths; depth++, y += LANE) {
        if (y + LANE > RULER && y < this.height) visit(track.lanes[lane + depth] ?? [], y, index, depth);
      }
      lane += stack.deepest + 1;
    });
  }

  private drawLane(track: Track, lane: Slice[], y: number): void {
    const { context } = this;
    let drawn = -1;
    for (const [, , start, end, name, flags] of lane) {
      const x1 = Math.min(this.toX(track.toAxis(end, this.byTime)), this.width + 2);
      if (x1 < GUTTER || x1 - drawn < 0.7) continue;
      const x0 = Math.max(this.toX(track.toAxis(start, this.byTime)), GUTTER - 2, drawn);
      if (x0 > this.width) break;
      const text = track.names[name] ?? "";
      const color = sliceColors(text, this.palette.dark);
      const width = Math.max(1, x1 - x0);
      context.fillStyle = color.fill;
      context.fillRect(x0, y, width > 3 ? width - 0.6 : width, LANE - 1);
      if (flags & 1 || flags & 2 || flags & 8) {
        context.fillStyle = color.edge;
        if (flags & 1) context.fillRect(x0, y, 2, LANE - 1);
        if (flags & 10) context.fillRect(x1 - 2.6, y, 2, LANE - 1);
      }
      if (width > 3.2 * this.character) {
        context.fillStyle = color.text;
        drawText(context, text, Math.max(x0, GUTTER) + 4, y + LANE / 2, x1 - Math.max(x0, GUTTER) - 7, this.character);
      }
      drawn = x1;
    }
  }

  private drawGaps(track: Track, top: number): void {
    this.context.fillStyle = this.palette.gap;
    this.context.globalAlpha = 0.22;
    const pixels = this.pixelsPerInstruction(track);
    for (const gap of track.marks.get("gap") ?? []) {
      if (gap.room * pixels >= SYMBOL) this.context.fillRect(this.toX(track.toAxis(gap.n, this.byTime)) - 1, top + HEADER, 2, track.height - HEADER);
    }
    this.context.globalAlpha = 1;
  }

  private pixelsPerInstruction(track: Track): number {
    const instructions = track.toNumber(this.view.to, this.byTime) - track.toNumber(this.view.from, this.byTime);
    return (this.width - GUTTER) / Math.max(1, instructions);
  }

  private drawMarks(track: Track, y: number): void {
    const pixels = this.pixelsPerInstruction(track);
    for (const [kind, marks] of track.marks) {
      this.context.fillStyle = this.color(kind);
      for (const mark of marks) {
        const x = this.toX(track.toAxis(mark.n, this.byTime));
        if (x > GUTTER - 5 && x < this.width + 5) drawMark(this.context, kind, x, y, mark.room * pixels < SYMBOL);
      }
    }
  }

  private color(kind: string): string {
    return kind in this.palette ? (this.palette as unknown as Record<string, string>)[kind] as string : this.palette.note;
  }

  private drawPosition(track: Track, top: number): void {
    const side = this.model.sides.find(one => one.source === track.source);
    if (!side) return;
    const { context, palette } = this;
    const x0 = this.toX(track.toAxis(side.n, this.byTime));
    const x1 = this.toX(track.toAxis(side.n + 1, this.byTime));
    context.fillStyle = palette.selection;
    context.fillRect(x0, top, Math.max(0, x1 - x0), track.height);
    context.fillStyle = palette.accent;
    context.fillRect(x0 - 0.75, top, 1.5, track.height);
  }

  private drawGutter(track: Track, top: number, active: boolean): void {
    const { context, palette } = this;
    context.fillStyle = palette.panel;
    context.fillRect(0, top, GUTTER - 1, track.height);
    context.fillStyle = palette.line;
    context.fillRect(GUTTER - 1, top, 1, track.height);
    context.fillStyle = active ? palette.accent : palette.text;
    const room = (GUTTER - 24) / this.character;
    const trace = this.model.sides.length > 1 ? `${"AB"[track.source.t]} ` : "";
    context.fillText(track.collapsed ? "▸" : "▾", 6, top + HEADER / 2 + 1);
    context.fillText(trace + shown(track.source.info.name, Math.floor(room) - trace.length), 18, top + HEADER / 2 + 1);
    context.fillStyle = palette.muted;
    let y = top + HEADER + LANE / 2;
    for (const stack of track.stacks) {
      drawText(context, stack.label, 18, y, GUTTER - 24, this.character);
      y += track.depths(stack) * LANE;
    }
    const work = track.source.progress?.calls;
    if (!work || track.stacks.length > 0) return;
    const text = work.state === "running" ? "Calls are still being followed." : work.why ?? "No call is known.";
    drawText(context, text, GUTTER + 8, top + HEADER + LANE / 2, this.width - GUTTER - 16, this.character);
  }

  private hit(x: number, y: number): Hit | null {
    let result: Hit | null = null;
    this.eachTrack((track, top) => {
      if (y < top || y >= top + track.height || x < GUTTER) return;
      const axis = this.fromX(x);
      const n = Math.min(Math.max(1, Math.floor(track.toNumber(axis, this.byTime))), Math.max(1, track.source.length));
      const near = (mark: Mark): number => Math.abs(this.toX(track.toAxis(mark.n, this.byTime)) - x);
      const mark = y < top + HEADER ? [...track.marks.values()].flat().filter(one => near(one) < 6).sort((a, b) => near(a) - near(b))[0] : undefined;
      let slice: Slice | undefined;
      this.eachLane(track, top, (lane, laneTop) => {
        if (y >= laneTop && y < laneTop + LANE) slice = lane.find(one => n >= one[2] && n < one[3]);
      });
      result = { track, n: mark ? mark.n : n, mark: mark ?? null, slice: slice ?? null };
    });
    return result;
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : 30;
    if (event.offsetX < GUTTER || event.altKey) this.scrollBy(event.deltaY * unit);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(((event.deltaX || event.deltaY) * unit) / (this.width - GUTTER));
    else this.zoom(1.0025 ** Math.max(-400, Math.min(400, event.deltaY * unit)), this.fromX(event.offsetX));
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    if (event.offsetY < OVERVIEW) return this.dragOverview(event);
    const { view, scroll } = this;
    const [x, y] = [event.offsetX, event.offsetY];
    let moved = false;
    const follow = (move: PointerEvent): void => {
      if (!moved && Math.hypot(move.offsetX - x, move.offsetY - y) < 4) return;
      moved = true;
      this.canvas.classList.add("dragging");
      this.scroll = scroll - (move.offsetY - y);
      const by = ((move.offsetX - x) / (this.width - GUTTER)) * (view.to - view.from);
      this.look({ from: view.from - by, to: view.to - by });
    };
    this.capture(event, follow, () => {
      if (!moved) this.click(x, y);
    });
  }

  private dragOverview(event: PointerEvent): void {
    const follow = (move: PointerEvent): void => {
      const { whole, view } = this;
      const center = whole.from + ((move.offsetX - GUTTER) / (this.width - GUTTER)) * (whole.to - whole.from);
      const half = (view.to - view.from) / 2;
      this.look({ from: center - half, to: center + half });
    };
    follow(event);
    this.capture(event, follow, () => {});
  }

  private capture(event: PointerEvent, follow: (move: PointerEvent) => void, done: () => void): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener("pointermove", follow);
    this.canvas.addEventListener("lostpointercapture", () => {
      this.canvas.removeEventListener("pointermove", follow);
      this.canvas.classList.remove("dragging");
      done();
    }, { once: true });
  }

  private click(x: number, y: number): void {
    if (x < GUTTER) {
      this.eachTrack((track, top) => {
        if (y >= top && y < top + HEADER) track.collapsed = !track.collapsed;
      });
      this.redraw();
      return;
    }
    const hit = this.hit(x, y);
    if (hit) this.model.show(hit.track.source, hit.n);
    else this.model.go(this.active.toNumber(this.fromX(x), this.byTime));
  }

  /** Zooms to the slice under the pointer. */
  private enter(event: MouseEvent): void {
    const hit = this.hit(event.offsetX, event.offsetY);
    if (!hit?.slice) return;
    const from = hit.track.toAxis(hit.slice[2], this.byTime);
    const to = hit.track.toAxis(hit.slice[3], this.byTime);
    this.look({ from: from - (to - from) * 0.03, to: to + (to - from) * 0.03 });
  }

  private hover(event: PointerEvent): void {
    const hit = event.buttons === 0 ? this.hit(event.offsetX, event.offsetY) : null;
    const lines = hit ? this.describe(hit) : [];
    this.tip.hidden = lines.length === 0;
    if (lines.length === 0) return;
    this.tip.replaceChildren(...lines.map(line => {
      const element = document.createElement("div");
      element.textContent = shown(line, 300);
      return element;
    }));
    const x = Math.min(event.clientX + 14, innerWidth - this.tip.offsetWidth - 8);
    const y = Math.min(event.clientY + 18, innerHeight - this.tip.offsetHeight - 8);
    this.tip.style.transform = `translate(${Math.max(0, x)}px, ${y}px)`;
  }

  private describe({ track, n, mark, slice }: Hit): string[] {
    if (mark) return [`${mark.kind}${mark.count > 1 ? `, ${grouped(mark.count)} here, the first at` : " at"} #${grouped(mark.n)}`, mark.text];
    if (!slice) return [];
    const [, , start, end, name, flags] = slice;
    const notes = ["began before the trace", "ended in a gap", "has a gap", "still open at the end"].filter((_, bit) => flags & (1 << bit));
    const unit = track.source.info.time_unit;
    const clock = track.clock;
    const duration = clock && unit ? ` · about ${timeText(String(Math.max(0, Math.round(clock.timeAt(end) - clock.timeAt(start)))), unit, 1)}` : "";
    return [track.names[name] ?? "", `#${grouped(start)} to #${grouped(end - 1)} · ${grouped(end - start)} instructions${duration}`, ...(notes.length > 0 ? [notes.join(", ")] : []), `here #${grouped(n)}`];
  }
}
