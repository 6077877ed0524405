/** Packets and their bytes around the current instruction, for captures. */

import { request, type Packet } from "./api";
import { el, setText, span } from "./dom";
import { List } from "./list";
import type { Model } from "./model";
import type { Pane } from "./tabs";

export class PacketsPane implements Pane {
  readonly id = "packets";
  readonly title = "Packets";
  readonly element: HTMLElement;
  private readonly note = el("p", { class: "empty" });
  private readonly list = new List<Packet>("Packets", packet => {
    const cells = [span("offset", `0x${packet.offset.toString(16).padStart(8, "0")}`), span("raw", packet.bytes, 36), span("name", packet.name, 32), span("text", packet.text, 200)];
    if (packet.here) for (const cell of cells) cell.classList.add("here");
    return cells;
  });

  constructor(private readonly model: Model) {
    this.element = el("div", { class: "packets" }, this.note, this.list.element);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source, n } = this.model.side;
    const { packets, why } = await request("packets", { t: source.t, s: source.s, at: n }, signal);
    if (signal.aborted) return;
    setText(this.note, why ?? (packets.length === 0 ? "No packet is known here." : ""), 300);
    this.list.set(packets);
    this.list.select(packets.findIndex(packet => packet.here), 3);
  }
}
