/** The help overlay: keys, places and conditions. */

import { byId, el } from "./dom";
import { keyName, type Section } from "./keys";

const PLACES: [string, string][] = [
  ["#1200", "instruction 1200"],
  ["0x8000", "first execution of the address"],
  ["main", "first instruction of the function"],
  ["1200ns, 40clk", "a time"],
  ["1200", "an offset, record or line of the file"],
];

const CONDITIONS: [string, string][] = [
  ["0x400580", "execution of the address"],
  ["function main", "entry of the function"],
  ["text ldr", "part of the disassembly; also without “text”"],
  ["opcode d65f03c0", "an opcode; x is any digit"],
  ["register x0, x0=5", "write of a register, or of this value"],
  ["read 0x8000", "read of memory"],
  ["write 0x8000..0x8010", "write of memory in a range, which ends before 0x8010"],
  ["exception, gap, context, finding", "an event of this kind"],
];

const POINTER: [string, string][] = [
  ["Wheel", "zoom the timeline around the pointer"],
  ["Shift+Wheel, drag", "pan; over the names, the wheel scrolls tracks"],
  ["Click", "go to the instruction"],
  ["Double click", "zoom to the call"],
];

export class Help {
  private readonly dialog = byId<HTMLDialogElement>("help");

  constructor(sections: Section[]) {
    const keys = sections.map(({ title, commands }) => table(title, commands.map(command => [command.keys.map(keyName), command.text])));
    const syntax = (title: string, rows: [string, string][]): HTMLElement => table(title, rows.map(([text, meaning]) => [[text], meaning]));
    byId("help-body").append(...keys, syntax("Pointer", POINTER), syntax("Go to", PLACES), syntax("Search", CONDITIONS));
    byId("help-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("click", event => { if (event.target === this.dialog) this.dialog.close(); });
    this.dialog.addEventListener("keydown", event => { if (event.key === "?") this.dialog.close(); });
  }

  open(): void {
    this.dialog.showModal();
  }
}

function table(title: string, rows: [string[], string][]): HTMLElement {
  const list = el("dl", {}, ...rows.flatMap(([keys, text]) => [el("dt", {}, ...keys.map(key => el("kbd", {}, key))), el("dd", {}, text)]));
  return el("section", {}, el("h3", {}, title), list);
}
