/**
 * Typed requests to the server of `unspool view`.
 *
 * Knows the paths, parameters and answers, and whether the server answers at all; keeps nothing.
 */

export interface SourceInfo {
  name: string;
  time_unit: "ticks" | "cycles" | "ns" | null;
  has: { times: boolean; registers: boolean; data: boolean; packets: boolean };
}
export interface TraceInfo { name: string; path: string; kind: string; sources: SourceInfo[]; notes: string[] }
export interface Traces { version: number; unspool: string; traces: TraceInfo[] }

export type WorkState = "running" | "done" | "none" | "failed";
export interface Work { state: WorkState; done: number; total: number | null; why: string | null }
export interface Progress { index: Work; calls: Work; findings: Work; lines: Work; instructions: number | null }

export interface Access { kind: "read" | "write"; address: string; size: number; value: string | null }
export interface TraceEvent { kind: string; text: string }
export interface Row {
  n: number; core: number; address: string; opcode: string; text: string; function: string | null; offset: number;
  file: number | null; line: number | null; time: string | null; not_executed?: boolean; taken?: boolean;
  accesses: Access[]; events: TraceEvent[];
}
export interface Rows { rows: Row[]; tail: TraceEvent[]; end: boolean; files: string[] }

export interface Found { n: number | null; more?: number | null }
export type Move = "over" | "over_back" | "out" | "out_back";
export interface Register { name: string; value: string; changed: boolean }
export interface MemoryLine { address: string; bytes: string[] }
export interface CoreState { name: string; registers: Register[]; memory: MemoryLine[] }
export interface State { cores: CoreState[]; why: string | null }
export interface Frame { function: string | null; address: string; entry: number; depth: number; began: string }
export interface Stack { stack?: number; frames?: Frame[]; state?: WorkState }
export interface StackInfo { label: string; process: number | null; thread: number | null; deepest: number }
export type Slice = [stack: number, depth: number, start: number, end: number, name: number, flags: number];
export interface Calls { stacks: StackInfo[]; names: string[]; slices: Slice[]; clipped: boolean; state?: WorkState }
export type Bucket = [bucket: number, kind: number, count: number, first: number, text: string];
export interface Marks { kinds: string[]; buckets: Bucket[] }
export interface Times { times: (string | null)[] }
export interface TreeNode { function: string | null; address: string; calls: number; own: number; total: number }
export interface Tree { nodes: TreeNode[]; state?: WorkState }
export interface SourceFile { path: string; lines: string[]; counts: Record<string, number>; why: string | null }
export interface Packet { offset: number; bytes: string; name: string; text: string; here: boolean }
export interface Packets { packets: Packet[]; why: string | null }
export interface Finding { n: number | null; severity: "error" | "warning" | "note"; rule: string; text: string }
export interface Findings { items: Finding[]; more: number; state: WorkState }
export interface Difference { a: number; a_count: number; b: number; b_count: number; text: string }
export interface Differences { items: Difference[]; more: number; equal: boolean; state: WorkState; why: string | null }

interface Answers {
  traces: Traces; progress: Progress; instructions: Rows; locate: Found; find: Found; step: Found; state: State; stack: Stack;
  calls: Calls; marks: Marks; times: Times; tree: Tree; source: SourceFile; packets: Packets; findings: Findings; differences: Differences;
}

/** The server refused a request; the message is its sentence. */
export class Refused extends Error {}
/** The server did not answer. */
export class Unreachable extends Error {}

const reachability: ((reachable: boolean) => void)[] = [];
export function onReachable(listener: (reachable: boolean) => void): void {
  reachability.push(listener);
}

export async function request<P extends keyof Answers>(
  path: P,
  parameters: Record<string, string | number>,
  signal: AbortSignal,
): Promise<Answers[P]> {
  const query = new URLSearchParams(Object.entries(parameters).map(([name, value]) => [name, String(value)]));
  const text = query.toString();
  let response: Response;
  let answer: unknown;
  try {
    response = await fetch(`api/${path}${text ? `?${text}` : ""}`, { signal });
    answer = await response.json();
  } catch (error) {
    if (signal.aborted) throw error;
    for (const listener of reachability) listener(false);
    throw new Unreachable("The server does not answer.");
  }
  for (const listener of reachability) listener(true);
  if (response.ok) return answer as Answers[P];
  const sentence = (answer as { error?: unknown }).error;
  throw new Refused(typeof sentence === "string" ? sentence : `The server answered with status ${response.status}.`);
}

/** A sentence to show for an error, or null for one that needs none: an aborted request, or a banner that is already shown. */
export function sentence(error: unknown): string | null {
  if (error instanceof Unreachable) return null;
  if (error instanceof DOMException && error.name === "AbortError") return null;
  return error instanceof Error ? error.message : String(error);
}

/** At most one request of a kind: starting the next one aborts the one before. */
export class Latest {
  private controller = new AbortController();

  next(): AbortSignal {
    this.controller.abort();
    this.controller = new AbortController();
    return this.controller.signal;
  }

  abort(): void {
    this.controller.abort();
  }
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    }, { once: true });
  });
}
