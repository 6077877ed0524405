/** Keyboard commands: a table of keys, their text in the help, and what they do. */

export interface Command { keys: string[]; text: string; run: (backward: boolean, key: string) => void }
export interface Section { title: string; commands: Command[] }

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", PageDown: "Page Down", PageUp: "Page Up", Escape: "Esc" };

export function keyName(key: string): string {
  return NAMES[key] ?? (/^[A-Z]$/.test(key) ? `Shift+${key}` : key);
}

/** Runs commands on keys of the document, except where text is entered. The last of several keys runs a command backward. */
export function listen(sections: Section[]): void {
  const commands = sections.flatMap(section => section.commands);
  document.addEventListener("keydown", event => {
    const target = event.target as HTMLElement;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const command = commands.find(one => one.keys.includes(event.key));
    if (!command) return;
    event.preventDefault();
    command.run(command.keys.indexOf(event.key) > 0, event.key);
  });
}
