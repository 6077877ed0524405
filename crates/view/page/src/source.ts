/** The source file of the current instruction, with its line marked and execution counts. */

import { request, type SourceFile } from "./api";
import { el, grouped, setText, span } from "./dom";
import { List } from "./list";
import type { Model, Source } from "./model";
import type { Pane } from "./tabs";

interface Line { number: number; text: string; count: number | undefined }

export class SourcePane implements Pane {
  readonly id = "source";
  readonly title = "Source";
  readonly element: HTMLElement;
  private readonly path = el("p", { class: "pane-head" });
  private readonly list = new List<Line>("Lines of the source file", line => this.line(line));
  private readonly loaded = new Map<string, SourceFile>();
  private shownFile = "";
  private most = 1;

  constructor(private readonly model: Model) {
    this.element = el("div", { class: "source" }, this.path, this.list.element);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { source, n } = this.model.side;
    const row = await source.rows.fetch(n);
    if (signal.aborted) return;
    if (!row || row.file === null) {
      this.clear(row?.function ? `No source line is known for ${row.function}.` : "No source line is known here.");
      return;
    }
    const file = await this.file(source, row.file, signal);
    if (signal.aborted) return;
    const key = `${source.t} ${source.s} ${row.file} ${source.busy}`;
    if (file.why !== null || file.lines.length === 0) {
      this.clear(`${file.why ?? "The file is empty."} Line ${row.line ?? "unknown"} of ${file.path}.`);
      return;
    }
    if (key !== this.shownFile) {
      this.shownFile = key;
      this.most = Math.max(1, ...Object.values(file.counts));
      this.list.set(file.lines.map((text, i) => ({ number: i + 1, text, count: file.counts[i + 1] })));
    }
    setText(this.path, `${file.path}:${row.line ?? "?"}`, 200);
    this.list.select((row.line ?? 0) - 1, 3);
  }

  private async file(source: Source, index: number, signal: AbortSignal): Promise<SourceFile> {
    const key = `${source.t} ${source.s} ${index}`;
    const cached = this.loaded.get(key);
    if (cached) return cached;
    const file = await request("source", { t: source.t, s: source.s, file: index }, signal);
    if (!source.busy) this.loaded.set(key, file);
    return file;
  }

  private clear(text: string): void {
    this.shownFile = "";
    setText(this.path, text, 300);
    this.list.set([]);
  }

  private line(line: Line): (Node | string)[] {
    const count = span("count", line.count === undefined ? "" : grouped(line.count));
    if (line.count !== undefined) {
      count.classList.add(line.count > 0 ? "covered" : "uncovered");
      const share = line.count > 0 ? Math.log1p(line.count) / Math.log1p(this.most) : 0;
      count.style.backgroundSize = `${Math.round(share * 100)}% 100%`;
      count.title = `${grouped(line.count)} executions`;
    }
    return [count, span("number", String(line.number)), code(line.text)];
  }
}

const TOKENS = /(\/\/.*$|\/\*.*?\*\/)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\b(if|else|while|for|do|switch|case|default|return|break|continue|static|const|struct|enum|union|int|char|void|unsigned|signed|long|short|float|double|bool|typedef|sizeof|fn|let|mut|pub|impl|match|use|mod|self|class|template|public|private|new|delete|auto|inline|extern|volatile|goto)\b|\b(0x[0-9a-fA-F]+|\d+)\b/g;
const CLASSES = ["", "comment", "string", "keyword", "num"];

function code(text: string): HTMLElement {
  const element = el("span", { class: "code" });
  const line = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  let at = 0;
  for (const match of line.matchAll(TOKENS)) {
    const group = match.slice(1).findIndex(part => part !== undefined) + 1;
    element.append(line.slice(at, match.index), span(CLASSES[group] ?? "", match[0], 400));
    at = match.index + match[0].length;
  }
  element.append(line.slice(at));
  return element;
}
