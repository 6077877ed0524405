/**
 * The view in the fragment of the address, so that a link restores it: positions, timeline, panes,
 * search, memory and bookmarks.
 */

export interface Bookmark { t: number; s: number; n: number; label: string }

export interface View {
  positions: { t: number; s: number; n: number }[];
  active: number;
  from: number | null;
  to: number | null;
  byTime: boolean;
  panes: string[];
  search: string;
  memory: string;
  bookmarks: Bookmark[];
}

export function writeView(view: View): string {
  const fields: [string, string][] = [["p", view.positions.map(({ t, s, n }) => `${t}.${s}.${n}`).join(",")]];
  if (view.active > 0) fields.push(["a", String(view.active)]);
  if (view.from !== null && view.to !== null) fields.push(["z", `${view.from},${view.to}`]);
  if (view.byTime) fields.push(["x", "time"]);
  fields.push(["panes", view.panes.join(",")]);
  if (view.search) fields.push(["q", view.search]);
  if (view.memory) fields.push(["m", view.memory]);
  const bookmarks = writeBookmarks(view.bookmarks);
  return `#${new URLSearchParams(fields)}${bookmarks && "&"}${bookmarks}`;
}

export function writeBookmarks(bookmarks: Bookmark[]): string {
  return String(new URLSearchParams(bookmarks.map(({ t, s, n, label }) => ["b", `${t}.${s}.${n}.${label}`])));
}

const POSITION = /^(\d{1,4})\.(\d{1,6})\.(\d{1,15})$/;
const BOOKMARK = /^(\d{1,4})\.(\d{1,6})\.(\d{1,15})\.([^]{0,80})$/;
const RANGE = /^(-?\d{1,15}(?:\.\d{1,12})?),(-?\d{1,15}(?:\.\d{1,12})?)$/;

/** Reads a fragment; what is malformed in it is left out. */
export function readView(fragment: string): View {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  const positions = (fields.get("p") ?? "").split(",").flatMap(text => {
    const match = POSITION.exec(text);
    return match ? [{ t: Number(match[1]), s: Number(match[2]), n: Math.max(1, Number(match[3])) }] : [];
  });
  const range = RANGE.exec(fields.get("z") ?? "");
  const bookmarks = fields.getAll("b").flatMap(text => {
    const match = BOOKMARK.exec(text);
    return match ? [{ t: Number(match[1]), s: Number(match[2]), n: Math.max(1, Number(match[3])), label: match[4] as string }] : [];
  });
  return {
    positions: positions.slice(0, 2),
    active: fields.get("a") === "1" ? 1 : 0,
    from: range ? Number(range[1]) : null,
    to: range ? Number(range[2]) : null,
    byTime: fields.get("x") === "time",
    panes: (fields.get("panes") ?? "").split(","),
    search: (fields.get("q") ?? "").slice(0, 200),
    memory: (fields.get("m") ?? "").slice(0, 60),
    bookmarks: bookmarks.slice(0, 100),
  };
}
