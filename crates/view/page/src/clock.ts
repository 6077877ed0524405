/**
 * Times of instructions of one source, as a table that is interpolated in both directions.
 *
 * Times are numbers relative to `origin`, so that they stay exact enough for pixels.
 */

import { request } from "./api";
import type { Source } from "./model";

const BUCKETS = 1024;

/** The first time seen; the same for all sources, so that their times compare. */
let origin: bigint | null = null;

export function absolute(time: number): string {
  return String((origin ?? 0n) + BigInt(Math.round(time)));
}

export class Clock {
  private constructor(private readonly numbers: number[], private readonly times: number[]) {}

  static async load(source: Source, from: number, to: number, signal: AbortSignal): Promise<Clock | null> {
    const count = Math.min(BUCKETS, to - from + 1);
    const answer = await request("times", { t: source.t, s: source.s, from, to, buckets: count }, signal);
    const numbers: number[] = [];
    const times: number[] = [];
    answer.times.forEach((time, i) => {
      if (time === null) return;
      origin ??= BigInt(time);
      const value = Number(BigInt(time) - origin);
      if (times.length > 0 && value < (times.at(-1) as number)) return;
      numbers.push(from + Math.floor((i * (to - from + 1)) / count));
      times.push(value);
    });
    return numbers.length > 1 ? new Clock(numbers, times) : null;
  }

  /** A clock for the times `from..=to`, precise to `precision` units of time where the trace is. */
  async narrowed(source: Source, from: number, to: number, precision: number, signal: AbortSignal): Promise<Clock> {
    let clock: Clock = this;
    for (let level = 0; level < 6; level++) {
      const first = Math.max(1, Math.floor(clock.below(from)));
      const last = Math.min(source.length, Math.ceil(clock.above(to)));
      const exact = clock.numbers.length > 1 && (clock.numbers[1] as number) - (clock.numbers[0] as number) <= 1;
      if (exact || clock.step(from, to) <= precision || last <= first) break;
      const next = await Clock.load(source, first, last, signal);
      if (next === null) break;
      clock = next;
    }
    return clock;
  }

  get first(): number {
    return this.times[0] as number;
  }

  get last(): number {
    return this.times.at(-1) as number;
  }

  timeAt(n: number): number {
    return interpolate(this.numbers, this.times, n);
  }

  numberAt(time: number): number {
    return interpolate(this.times, this.numbers, time);
  }

  /** The entry of the table at or before a time. */
  private below(time: number): number {
    return this.numbers[Math.max(0, upper(this.times, time - 1) - 1)] as number;
  }

  private above(time: number): number {
    return this.numbers[Math.min(this.numbers.length - 1, upper(this.times, time))] as number;
  }

  /** The longest time between entries in a range. */
  private step(from: number, to: number): number {
    let longest = 0;
    for (let i = Math.max(1, upper(this.times, from)); i < this.times.length; i++) {
      longest = Math.max(longest, (this.times[i] as number) - (this.times[i - 1] as number));
      if ((this.times[i] as number) > to) break;
    }
    return longest;
  }
}

/** The index of the first entry above `value`. */
function upper(sorted: number[], value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Linear between entries, and with the slope of the nearest two outside of them. */
function interpolate(xs: number[], ys: number[], x: number): number {
  const i = Math.min(Math.max(1, upper(xs, x)), xs.length - 1);
  const [x0, x1, y0, y1] = [xs[i - 1] as number, xs[i] as number, ys[i - 1] as number, ys[i] as number];
  return x1 === x0 ? y0 : y0 + ((x - x0) * (y1 - y0)) / (x1 - x0);
}
