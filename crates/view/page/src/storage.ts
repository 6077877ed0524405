/** Settings kept by the browser, where it allows that. */

export function stored(key: string): string | null {
  try {
    return localStorage.getItem(`unspool.${key}`);
  } catch {
    return null;
  }
}

export function store(key: string, value: string): void {
  try {
    localStorage.setItem(`unspool.${key}`, value);
  } catch {
    // Storage can be denied or full; the page works without it.
  }
}
