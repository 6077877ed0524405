/**
 * What is shown: the traces and their sources, and the one current position that all panes follow.
 *
 * With two traces there are two sides, each with its own source and position; one of them is active.
 * Panes listen to `moved` (the position or the active side), `loaded` (rows or progress arrived) and
 * `reshaped` (a side shows another source).
 */

import { Latest, request, sentence, sleep, type Progress, type SourceInfo, type TraceInfo, type Work } from "./api";
import { RowCache } from "./rows";

type Topic = "moved" | "loaded" | "reshaped" | "notice";

/** Milliseconds between requests of the progress; longer with many sources, which are all polled. */
const POLL = 250;
const POLL_PER_SOURCE = 25;

export class Source {
  readonly rows: RowCache;
  progress: Progress | null = null;
  private readonly poll = new Latest();
  private polling = false;

  constructor(readonly t: number, readonly s: number, readonly trace: TraceInfo, readonly info: SourceInfo) {
    this.rows = new RowCache(t, s);
  }

  /** The number of instructions, or a lower bound while it is unknown. */
  get length(): number {
    return this.progress?.instructions ?? this.rows.end ?? this.rows.seen + 1000;
  }

  get lengthKnown(): boolean {
    return (this.progress?.instructions ?? this.rows.end) !== null;
  }

  get busy(): boolean {
    return this.progress === null || this.works().some(([, work]) => work.state === "running");
  }

  works(): [string, Work][] {
    return this.progress
      ? [["Index", this.progress.index], ["Calls", this.progress.calls], ["Findings", this.progress.findings], ["Lines", this.progress.lines]]
      : [];
  }

  /** Polls the progress until nothing runs any more. */
  async watch(changed: () => void): Promise<void> {
    if (this.polling || !this.busy) return;
    this.polling = true;
    const signal = this.poll.next();
    try {
      while (this.busy) {
        const before = this.length;
        this.progress = await request("progress", { t: this.t, s: this.s }, signal);
        if (this.length > before) this.rows.forget();
        changed();
        if (this.busy) await sleep(Math.max(POLL, POLL_PER_SOURCE * this.trace.sources.length), signal);
      }
    } catch {
      // The banner shows that the server is gone; its retry starts this again.
    } finally {
      this.polling = false;
    }
  }
}

export interface Side { source: Source; n: number }

export class Model {
  readonly sides: Side[];
  readonly sources: Source[];
  active = 0;
  /** The aligned position of the other side; set when two traces are compared. */
  align: ((n: number, from: number) => number) | null = null;
  private readonly listeners: Record<Topic, ((text: string) => void)[]> = { moved: [], loaded: [], reshaped: [], notice: [] };

  constructor(readonly traces: TraceInfo[]) {
    this.sources = traces.flatMap((trace, t) => trace.sources.map((info, s) => new Source(t, s, trace, info)));
    this.sides = traces.map((_, t) => ({ source: this.sourceOf(t, 0), n: 1 }));
    for (const source of this.sources) {
      source.rows.onLoad = () => this.emit("loaded");
      source.rows.onError = message => this.notice(message);
    }
  }

  get side(): Side {
    return this.sides[this.active] as Side;
  }

  on(topic: Topic, listener: (text: string) => void): void {
    this.listeners[topic].push(listener);
  }

  emit(topic: Topic, text = ""): void {
    for (const listener of this.listeners[topic]) listener(text);
  }

  /** A sentence for the status line. */
  notice(text: string): void {
    this.emit("notice", text);
  }

  report(error: unknown): void {
    const message = sentence(error);
    if (message) this.notice(message);
  }

  sourceOf(t: number, s: number): Source {
    return (this.sources.find(source => source.t === t && source.s === s) ?? this.sources[0]) as Source;
  }

  /** Moves to an instruction of a side, which becomes active; the other side follows where traces are aligned. */
  go(n: number, index = this.active): void {
    const side = this.sides[index] as Side;
    const target = clamp(n, side.source);
    this.active = index;
    side.n = target;
    const other = this.sides[1 - index];
    if (other && this.align) other.n = clamp(this.align(target, index), other.source);
    this.emit("moved");
  }

  /** Shows another source on its side, at an instruction. */
  show(source: Source, n: number): void {
    const index = this.sides.length > 1 ? source.t : 0;
    const side = this.sides[index] as Side;
    if (side.source !== source) {
      side.source = source;
      this.active = index;
      this.watch(source);
      this.emit("reshaped");
    }
    this.go(n, index);
  }

  /** Shows positions as they are given, without aligning them. */
  restore(positions: { t: number; s: number; n: number }[], active: number): void {
    for (const { t, s, n } of positions) {
      const side = this.sides[this.sides.length > 1 ? t : 0];
      if (!side || !this.traces[t]) continue;
      side.source = this.sourceOf(t, s);
      side.n = clamp(n, side.source);
      this.watch(side.source);
    }
    this.active = active < this.sides.length ? active : 0;
    this.emit("reshaped");
    this.emit("moved");
  }

  watch(source: Source): void {
    void source.watch(() => this.emit("loaded"));
  }
}

function clamp(n: number, source: Source): number {
  const limit = source.lengthKnown ? Math.max(1, source.length) : Number.MAX_SAFE_INTEGER;
  return Math.min(Math.max(1, Math.floor(n)), limit);
}
