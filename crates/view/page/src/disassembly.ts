/** Disassembly in parts with a class each: mnemonic, register, number, address. */

import { shown } from "./dom";

const PARTS = /(\b(?:[xwvqdshbzpra]\d{1,2}|[wx]?zr|[w]?sp|lr|pc|fp|[stag]\d{1,2}|ra|gp|tp|zero)\b)|(#?-?\b0x[0-9a-f]+\b|#-?\d+)/gi;

export function disassembly(target: HTMLElement, text: string): void {
  const line = shown(text, 120);
  const space = line.search(/\s/);
  const mnemonic = space < 0 ? line : line.slice(0, space);
  const parts: (Node | string)[] = [part("op", mnemonic)];
  const rest = line.slice(mnemonic.length);
  let at = 0;
  for (const match of rest.matchAll(PARTS)) {
    parts.push(rest.slice(at, match.index), part(match[1] ? "reg" : "num", match[0]));
    at = match.index + match[0].length;
  }
  parts.push(rest.slice(at));
  target.replaceChildren(...parts);
}

function part(className: string, text: string): HTMLElement {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}
