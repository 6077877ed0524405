/**
 * Instructions of one source, cached in blocks.
 *
 * Scrolling asks for a range on every frame; what is missing is requested once, and a request that the
 * range has left is aborted. The least recently used blocks are dropped.
 */

import { request, sentence, type Row, type TraceEvent } from "./api";

const BLOCK = 256;
const CAPACITY = 240;

export class RowCache {
  readonly files: string[] = [];
  tail: TraceEvent[] = [];
  /** The number of the last instruction, once a window reached the end. */
  end: number | null = null;
  /** The highest instruction number seen. */
  seen = 0;
  onLoad: () => void = () => {};
  onError: (message: string) => void = () => {};
  private readonly blocks = new Map<number, Row[]>();
  private readonly pending = new Map<number, { controller: AbortController; done: Promise<void>; kept: boolean }>();

  constructor(private readonly t: number, private readonly s: number) {}

  row(n: number): Row | undefined {
    const index = Math.floor((n - 1) / BLOCK);
    return this.blocks.get(index)?.[(n - 1) % BLOCK];
  }

  /** Requests what is missing in `from..=to`, and one block further in `direction`; aborts what was wanted before. */
  want(from: number, to: number, direction: number): void {
    let first = Math.max(0, Math.floor((from - 1) / BLOCK));
    let last = Math.max(0, Math.floor((to - 1) / BLOCK));
    if (direction < 0) first = Math.max(0, first - 1);
    if (direction > 0) last += 1;
    for (const [index, { controller, kept }] of this.pending) {
      if (!kept && (index < first || index > last)) controller.abort();
    }
    for (let index = first; index <= last; index++) {
      if (this.end !== null && index * BLOCK >= this.end) break;
      this.touch(index);
      if (!this.blocks.has(index)) void this.load(index);
    }
  }

  /** The row of one instruction, requested if it is not cached; undefined after the end. */
  async fetch(n: number): Promise<Row | undefined> {
    const index = Math.floor((n - 1) / BLOCK);
    if (!this.blocks.has(index)) {
      const done = this.load(index);
      const pending = this.pending.get(index);
      if (pending) pending.kept = true;
      await done;
    }
    return this.row(n);
  }

  /** Forgets blocks at the former end: more instructions may be known now. */
  forget(): void {
    for (const [index, rows] of this.blocks) if (rows.length < BLOCK) this.blocks.delete(index);
  }

  private touch(index: number): void {
    const block = this.blocks.get(index);
    if (!block) return;
    this.blocks.delete(index);
    this.blocks.set(index, block);
  }

  private load(index: number): Promise<void> {
    const pending = this.pending.get(index);
    if (pending && !pending.controller.signal.aborted) return pending.done;
    const controller = new AbortController();
    const entry = { controller, done: Promise.resolve(), kept: false };
    this.pending.set(index, entry);
    entry.done = this.receive(index, controller.signal).finally(() => {
      if (this.pending.get(index) === entry) this.pending.delete(index);
    });
    return entry.done;
  }

  private async receive(index: number, signal: AbortSignal): Promise<void> {
    try {
      const answer = await request("instructions", { t: this.t, s: this.s, from: index * BLOCK + 1, count: BLOCK }, signal);
      this.blocks.set(index, answer.rows);
      this.files.splice(0, this.files.length, ...(answer.files.length >= this.files.length ? answer.files : this.files));
      const last = answer.rows.at(-1)?.n ?? 0;
      this.seen = Math.max(this.seen, last);
      if (answer.end && (last > 0 || index === 0)) {
        this.end = last;
        this.tail = answer.tail;
      }
      for (const oldest of this.blocks.keys()) {
        if (this.blocks.size <= CAPACITY) break;
        this.blocks.delete(oldest);
      }
      this.onLoad();
    } catch (error) {
      const message = sentence(error);
      if (message) this.onError(message);
    }
  }
}
