/** Sizes of the panes, changed at splitters by pointer or arrow keys, and the theme. */

import { byId } from "./dom";
import { store, stored } from "./storage";

const LEAST = 15;
const MOST = 75;

export function setUpSplitters(): void {
  for (const splitter of document.querySelectorAll<HTMLElement>("[role=separator]")) {
    const name = splitter.id;
    const across = splitter.getAttribute("aria-orientation") === "vertical";
    const set = (percent: number): void => {
      const value = Math.round(Math.min(MOST, Math.max(LEAST, percent)) * 10) / 10;
      document.documentElement.style.setProperty(`--${name}`, `${value}%`);
      splitter.setAttribute("aria-valuenow", String(value));
      store(name, String(value));
    };
    const size = (x: number, y: number): number => {
      const parent = (splitter.parentElement as HTMLElement).getBoundingClientRect();
      const before = (splitter.previousElementSibling as HTMLElement).getBoundingClientRect();
      return across ? ((x - before.left) / parent.width) * 100 : ((y - before.top) / parent.height) * 100;
    };
    splitter.addEventListener("pointerdown", event => {
      const follow = (move: PointerEvent): void => set(size(move.clientX, move.clientY));
      splitter.setPointerCapture(event.pointerId);
      splitter.addEventListener("pointermove", follow);
      splitter.addEventListener("lostpointercapture", () => splitter.removeEventListener("pointermove", follow), { once: true });
    });
    splitter.addEventListener("keydown", event => {
      const step = { ArrowLeft: -2, ArrowUp: -2, ArrowRight: 2, ArrowDown: 2 }[event.key];
      if (step === undefined) return;
      set(Number(splitter.getAttribute("aria-valuenow")) + step);
      event.preventDefault();
      event.stopPropagation();
    });
    const kept = Number(stored(name));
    if (kept >= LEAST && kept <= MOST) set(kept);
  }
}

/** Puts the state under the source where there is no room for both side by side. */
export function setUpColumns(two: boolean): void {
  const narrow = matchMedia("(max-width: 1250px)");
  const apply = (): void => void document.body.classList.toggle("stacked", two || narrow.matches);
  narrow.addEventListener("change", apply);
  document.body.classList.toggle("two", two);
  apply();
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const themed: (() => void)[] = [];

export function onTheme(changed: () => void): void {
  themed.push(changed);
}

function apply(theme: string | null): void {
  const root = document.documentElement;
  if (theme === "dark" || theme === "light") root.dataset["theme"] = theme;
  const isDark = (root.dataset["theme"] ?? (dark.matches ? "dark" : "light")) === "dark";
  byId("theme").setAttribute("aria-pressed", String(isDark));
  for (const changed of themed) changed();
}

/** Switches between dark and light; the system decides until then. */
export function toggleTheme(): void {
  const next = byId("theme").getAttribute("aria-pressed") === "true" ? "light" : "dark";
  store("theme", next);
  apply(next);
}

export function setUpTheme(): void {
  apply(stored("theme"));
  dark.addEventListener("change", () => apply(null));
  byId("theme").addEventListener("click", toggleTheme);
}
