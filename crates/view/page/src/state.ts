/**
 * Registers and memory after the current instruction.
 *
 * Digits that the trace does not determine are x and .., and look different; what the instruction changed
 * is highlighted. Memory follows the access of the instruction unless an address is entered.
 */

import { request, type CoreState, type MemoryLine, type Register, type Row } from "./api";
import { el, setText, span } from "./dom";
import { List } from "./list";
import type { Model } from "./model";
import type { Pane } from "./tabs";

const MEMORY = /^(0x[0-9a-f]+|\d+)(?:\s*\+\s*(0x[0-9a-f]+|\d+))?$/i;
const SHOWN_BYTES = 96;

export class StatePane implements Pane {
  readonly id = "state";
  readonly title = "State";
  readonly element: HTMLElement;
  readonly memory = el("input", { id: "memory", type: "text", placeholder: "follows accesses; or 0x8000+64", spellcheck: "false", autocomplete: "off" });
  private readonly why = el("p", { class: "empty" });
  private readonly registers: List<Register>;
  private readonly bytes = el("div", { class: "bytes", role: "group", "aria-label": "Memory", tabindex: 0 });
  private readonly memorySection: HTMLElement;

  constructor(private readonly model: Model, findWrite: (register: string, backward: boolean) => void, changed: () => void) {
    this.registers = new List<Register>("Registers; Enter finds the next write", register => this.register(register, findWrite),
      (register, _, event) => { if (event.type === "keydown") findWrite(register.name, (event as KeyboardEvent).shiftKey); });
    this.registers.element.classList.add("registers");
    this.memorySection = el("div", { class: "memory" }, el("label", { class: "field" }, "Memory ", this.memory), this.bytes);
    this.memory.addEventListener("change", changed);
    this.element = el("div", { class: "state" }, this.why, el("div", { class: "state-parts" }, this.registers.element, this.memorySection));
  }

  /** The register that is selected in the pane. */
  get selected(): string | null {
    return this.registers.selected?.name ?? null;
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source, n } = this.model.side;
    const row = await source.rows.fetch(n);
    if (signal.aborted) return;
    const memory = this.range(row);
    const state = await request("state", { t: source.t, s: source.s, at: n, ...(memory ? { memory } : {}) }, signal);
    if (signal.aborted) return;
    const core = state.cores.find(one => one.name === String(row?.core)) ?? state.cores[0];
    this.show(core, state.why, row);
  }

  /** The memory to ask for: what was entered, or the surroundings of the last access of the instruction. */
  private range(row: Row | undefined): string | null {
    const entered = MEMORY.exec(this.memory.value.trim());
    if (entered) return `0x${BigInt(entered[1] as string).toString(16)}+${Math.min(4096, Math.max(1, Number(entered[2] ?? SHOWN_BYTES)))}`;
    if (this.memory.value.trim()) throw new Error("Enter an address with an optional length, such as 0x8000+64.");
    const access = row?.accesses.at(-1);
    if (!access) return null;
    const line = BigInt(access.address) & ~15n;
    const from = line >= 32n ? line - 32n : 0n;
    return `0x${from.toString(16)}+${SHOWN_BYTES}`;
  }

  private show(core: CoreState | undefined, why: string | null, row: Row | undefined): void {
    const registers = core?.registers ?? [];
    const kept = registers.findIndex(register => register.name === this.selected);
    setText(this.why, why ?? (registers.length === 0 ? "No register is known here." : ""), 300);
    const scroll = this.registers.element.scrollTop;
    this.registers.set(registers, kept);
    this.registers.element.scrollTop = scroll;
    const lines = core?.memory ?? [];
    this.memorySection.hidden = core === undefined;
    this.bytes.replaceChildren(...(lines.length > 0 ? lines.map(line => memoryLine(line, row)) : [span("empty", "This instruction accesses no memory. Enter an address.")]));
  }

  private register(register: Register, findWrite: (register: string, backward: boolean) => void): (Node | string)[] {
    const find = (backward: boolean, text: string): HTMLElement => {
      const button = span("find-write", text);
      button.title = `${backward ? "Previous" : "Next"} write of ${register.name}`;
      button.addEventListener("click", event => {
        event.stopPropagation();
        findWrite(register.name, backward);
      });
      return button;
    };
    const value = el("span", { class: register.changed ? "value changed" : "value" }, ...digits(register.value));
    return [span("name", register.name, 24), value, find(true, "◂"), find(false, "▸")];
  }
}

/** A value with leading zeros, known and unknown digits in different classes. */
function digits(value: string): (Node | string)[] {
  const parts = value.slice(0, 600).match(/^0x|^0+(?=.)|x+|[^x]+/g) ?? [];
  let leading = true;
  return parts.map(part => {
    if (part === "0x") return span("zero", part);
    if (/^x+$/.test(part)) return span("unknown", part, 600);
    const zeros = leading ? /^0*(?=.)/.exec(part)?.[0] ?? "" : "";
    leading = false;
    return el("span", {}, span("zero", zeros, 600), part.slice(zeros.length));
  });
}

function memoryLine(line: MemoryLine, row: Row | undefined): HTMLElement {
  const start = BigInt(line.address);
  const touched = (i: number): boolean => row?.accesses.some(access => {
    const offset = start + BigInt(i) - BigInt(access.address);
    return offset >= 0n && offset < BigInt(access.size);
  }) ?? false;
  const bytes = line.bytes.map((byte, i) => {
    const element = span(byte === ".." ? "unknown" : byte === "00" ? "zero" : "", byte);
    if (touched(i)) element.classList.add("changed");
    return element;
  });
  const ascii = line.bytes.map(byte => {
    const code = parseInt(byte, 16);
    return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : "·";
  }).join("");
  return el("div", { class: "memory-line" }, span("name", line.address), el("span", { class: "hex" }, ...bytes), span("ascii", ascii));
}
