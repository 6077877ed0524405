/**
 * The page of `unspool view`: builds the panes around one model and connects them with keys, buttons and
 * the link of the view.
 */

import { onReachable, request, sentence, Unreachable, type Row, type Traces } from "./api";
import { BookmarksPane } from "./bookmarks";
import { ComparePane } from "./compare";
import { byId, el, setText, shown } from "./dom";
import { FindingsPane } from "./findings";
import { Help } from "./help";
import { InstructionList } from "./instructions";
import { keyName, listen, type Section } from "./keys";
import { onTheme, setUpColumns, setUpSplitters, setUpTheme, toggleTheme } from "./layout";
import { readView, writeView, type View } from "./link";
import { Model } from "./model";
import { PacketsPane } from "./packets";
import { Moves, parseCondition } from "./search";
import { SourcePane } from "./source";
import { StackPane } from "./stack";
import { StatePane } from "./state";
import { Status } from "./status";
import { Tabs, type Pane } from "./tabs";
import { Timeline } from "./timeline";
import { TreePane } from "./tree";

class Page {
  private readonly model: Model;
  private readonly moves: Moves;
  private readonly timeline: Timeline;
  private readonly lists: InstructionList[];
  private readonly groups: Tabs[] = [];
  private readonly bookmarks: BookmarksPane;
  private readonly state: StatePane;
  private readonly compare: ComparePane | null;
  private readonly help: Help;
  private readonly search = byId<HTMLInputElement>("search");
  private readonly place = byId<HTMLInputElement>("place");
  private readonly sections: Section[];
  private written = "";
  private writeTimer = 0;

  constructor(answer: Traces) {
    this.model = new Model(answer.traces);
    const { model } = this;
    this.moves = new Moves(model);
    const status = new Status(model);
    this.timeline = new Timeline(model);
    onTheme(() => this.timeline.recolor());
    this.compare = model.sides.length > 1 ? new ComparePane(model) : null;
    this.lists = model.sides.map((_, index) => new InstructionList(model, index));
    this.state = new StatePane(model, (register, backward) => void this.moves.find({ name: "register", value: register }, !backward), () => this.groups.forEach(group => group.refresh()));
    this.bookmarks = new BookmarksPane(model, () => this.changed());
    const tree = new TreePane(model, address => void this.moves.locate(address));
    const code: Pane[] = [new SourcePane(model), new PacketsPane(model), new FindingsPane(model), this.bookmarks];
    if (this.compare) code.unshift(this.compare);
    this.groups.push(new Tabs(byId("code"), code, model, () => this.changed()), new Tabs(byId("detail"), [this.state, new StackPane(model), tree], model, () => this.changed()));
    this.sections = this.commands();
    this.help = new Help(this.sections);
    this.build();
    this.restore(readView(location.hash));
    model.on("moved", () => this.changed());
    this.timeline.onChange = () => this.changed();
    addEventListener("hashchange", () => { if (location.hash !== this.written) this.restore(readView(location.hash)); });
    for (const source of model.sources) model.watch(source);
    status.show();
    this.lists[model.active]?.focus();
  }

  /** Starts again what a lost server interrupted. */
  resume(): void {
    for (const source of this.model.sources) this.model.watch(source);
    void this.compare?.load();
    this.model.emit("loaded");
    this.model.emit("moved");
  }

  private build(): void {
    const { model } = this;
    const names = model.traces.map(trace => shown(trace.name, 60));
    document.title = `${names.join(" and ")} - unspool`;
    setText(byId("trace-name"), names.join(" ↔ "), 130);
    byId("trace-name").title = shown(model.traces.map(trace => `${trace.path} (${trace.kind})`).join("\n"), 2000);
    byId("lists").append(...this.lists.map(list => list.element));
    this.lists.forEach((list, index) => this.connect(list, index));
    this.showNotes();
    this.buildSources();
    this.buildForms();
    this.buildButtons();
    setUpColumns(model.sides.length > 1);
    setUpSplitters();
    listen(this.sections);
  }

  private connect(list: InstructionList, index: number): void {
    const { compare } = this;
    if (!compare) return;
    list.differs = n => compare.differs(n, index);
    list.onScroll = top => this.lists[1 - index]?.scrollTo(compare.aligned(Math.floor(top), index) + (top % 1));
  }

  private showNotes(): void {
    const notes = this.model.traces.flatMap(trace => trace.notes);
    const box = byId("notes");
    box.hidden = notes.length === 0;
    box.append(...notes.slice(0, 8).map(note => el("span", {}, shown(note, 300))));
    const close = el("button", { type: "button", "aria-label": "Hide the notes" }, "×");
    close.addEventListener("click", () => { box.hidden = true; });
    box.append(close);
  }

  private buildSources(): void {
    const { model } = this;
    const select = byId<HTMLSelectElement>("source");
    select.append(...model.sources.map((source, index) => el("option", { value: index }, shown(model.traces.length > 1 ? `${"AB"[source.t]}: ${source.info.name}` : source.info.name, 40))));
    (select.parentElement as HTMLElement).hidden = model.sources.length < 2;
    select.addEventListener("change", () => {
      const source = model.sources[Number(select.value)];
      if (source) model.show(source, 1);
    });
    const update = (): void => { select.value = String(model.sources.indexOf(model.side.source)); };
    model.on("moved", update);
    update();
  }

  private buildForms(): void {
    byId("goto-form").addEventListener("submit", event => {
      event.preventDefault();
      void this.goTo();
    });
    byId("search-form").addEventListener("submit", event => {
      event.preventDefault();
      const { submitter } = event as SubmitEvent;
      this.find((submitter as HTMLButtonElement | null)?.value !== "previous");
    });
    this.search.addEventListener("keydown", event => {
      if (event.key !== "Enter" || !event.shiftKey) return;
      event.preventDefault();
      this.find(false);
    });
    this.search.addEventListener("change", () => this.changed());
  }

  private buildButtons(): void {
    for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-key]")) {
      const key = button.dataset["key"] as string;
      const command = this.sections.flatMap(section => section.commands).find(one => one.keys.includes(key));
      if (!command) continue;
      button.title = `${button.getAttribute("aria-label") ?? command.text} (${keyName(key)})`;
      button.addEventListener("click", () => command.run(command.keys.indexOf(key) > 0, key));
    }
    byId("axis").hidden = !this.timeline.canShowTime;
    byId("link").addEventListener("click", () => void this.copyLink());
  }

  private async goTo(): Promise<void> {
    const text = this.place.value.trim();
    if (text && await this.moves.locate(text)) this.lists[this.model.active]?.focus();
  }

  private find(forward: boolean): void {
    try {
      void this.moves.find(parseCondition(this.search.value), forward);
      this.changed();
    } catch (error) {
      this.model.report(error);
    }
  }

  private commands(): Section[] {
    const { model, moves } = this;
    const list = (): InstructionList => this.lists[model.active] as InstructionList;
    const find = (name: string, value = "1") => (backward: boolean) => void moves.find({ name, value }, !backward);
    const row = (): Promise<Row | undefined> => model.side.source.rows.fetch(model.side.n);
    const address = async (backward: boolean): Promise<void> => {
      const here = await row();
      if (here) find("address", here.address)(backward);
    };
    const writes = async (backward: boolean): Promise<void> => {
      const access = (await row())?.accesses.at(-1);
      if (this.state.selected) find("register", this.state.selected)(backward);
      else if (access) find("memory_write", access.address)(backward);
      else model.notice("Select a register in the state first.");
    };
    const difference = (backward: boolean): void => {
      if (this.compare) this.compare.step(!backward);
      else model.notice("There is only one trace.");
    };
    const selectSource = (backward: boolean): void => {
      const index = model.sources.indexOf(model.side.source) + (backward ? -1 : 1);
      const source = model.sources[(index + model.sources.length) % model.sources.length];
      if (source && source !== model.side.source) model.show(source, model.sides[source.t]?.source === source ? model.sides[source.t]?.n ?? 1 : 1);
    };
    const panes = this.groups.flatMap(group => group.panes);
    return [
      { title: "Move", commands: [
        { keys: ["ArrowDown", "ArrowUp"], text: "Next, previous instruction", run: backward => moves.by(backward ? -1 : 1) },
        { keys: ["s", "S"], text: "Step forward, backward", run: backward => moves.by(backward ? -1 : 1) },
        { keys: ["n", "N"], text: "Step over calls, forward, backward", run: backward => void moves.step(backward ? "over_back" : "over", `There is no ${backward ? "previous" : "next"} instruction at this call depth.`) },
        { keys: ["o", "O"], text: "Out of this call: after its return, to the call", run: backward => void moves.step(backward ? "out_back" : "out", backward ? "The call of this function is not in the trace." : "This call does not return in the trace.") },
        { keys: ["PageDown", "PageUp"], text: "Next, previous page", run: backward => moves.by((backward ? -1 : 1) * list().page) },
        { keys: ["End", "Home"], text: "Last, first instruction", run: backward => moves.to(backward ? 1 : model.side.source.length) },
        { keys: ["g"], text: "Go to a place", run: () => this.place.select() },
      ] },
      { title: "Find", commands: [
        { keys: ["/"], text: "Search", run: () => this.search.select() },
        { keys: ["r", "R"], text: "Next, previous result", run: backward => this.find(!backward) },
        { keys: ["a", "A"], text: "Next, previous execution of this address", run: backward => void address(backward) },
        { keys: ["w", "W"], text: "Next, previous write of the selected register or of this memory", run: backward => void writes(backward) },
        { keys: ["e", "E"], text: "Next, previous exception", run: find("exception") },
        { keys: ["p", "P"], text: "Next, previous gap", run: find("gap") },
        { keys: ["c", "C"], text: "Next, previous change of context", run: find("context") },
        { keys: ["f", "F"], text: "Next, previous finding", run: find("finding") },
        { keys: ["d", "D"], text: "Next, previous difference", run: difference },
        { keys: ["Escape"], text: "Stop the search, leave a field", run: () => moves.stop("The search was stopped.") },
      ] },
      { title: "Timeline", commands: [
        { keys: ["+", "-"], text: "Zoom in, out", run: backward => this.timeline.zoom(backward ? 2 : 0.5) },
        { keys: ["0"], text: "Show the whole run", run: () => this.timeline.showAll() },
        { keys: ["ArrowRight", "ArrowLeft"], text: "Pan", run: backward => this.timeline.pan(backward ? -0.2 : 0.2) },
        { keys: ["j", "k"], text: "Scroll tracks", run: backward => this.timeline.scrollBy(backward ? -80 : 80) },
        { keys: ["h"], text: "Collapse or expand the track", run: () => this.timeline.toggleTrack() },
        { keys: ["x"], text: "Axis by instruction or time", run: () => void this.setAxis(!this.timeline.byTime) },
      ] },
      { title: "View", commands: [
        { keys: panes.map((_, index) => String(index + 1)), text: panes.map(pane => pane.title).join(", "), run: (_, key) => this.selectPane((panes[Number(key) - 1] as Pane).id) },
        { keys: ["]", "["], text: "Next, previous source", run: selectSource },
        { keys: ["v"], text: "Other trace", run: () => this.otherSide() },
        { keys: ["b"], text: "Bookmark this instruction", run: () => this.bookmarks.add() },
        { keys: ["t"], text: "Dark or light", run: toggleTheme },
        { keys: ["?"], text: "This help", run: () => this.help.open() },
      ] },
    ];
  }

  private selectPane(id: string): void {
    this.groups.find(group => group.has(id))?.select(id);
  }

  private otherSide(): void {
    const other = 1 - this.model.active;
    if (this.lists[other]) this.lists[other].focus();
    else this.model.notice("There is only one trace.");
  }

  private async setAxis(byTime: boolean): Promise<void> {
    if (!this.timeline.canShowTime) this.model.notice("A time axis needs times in every source.");
    await this.timeline.setAxis(byTime);
    byId("axis").setAttribute("aria-pressed", String(this.timeline.byTime));
  }

  private view(): View {
    const { model, timeline } = this;
    const whole = timeline.shownWhole;
    return {
      positions: model.sides.map(({ source, n }) => ({ t: source.t, s: source.s, n })),
      active: model.active,
      from: whole ? null : Math.round(timeline.view.from * 100) / 100,
      to: whole ? null : Math.round(timeline.view.to * 100) / 100,
      byTime: timeline.byTime,
      panes: this.groups.map(group => group.current.id),
      search: this.search.value.trim(),
      memory: this.state.memory.value.trim(),
      bookmarks: this.bookmarks.items,
    };
  }

  /** Writes the link soon; not at once, because browsers limit how often the address may change. */
  private changed(): void {
    clearTimeout(this.writeTimer);
    this.writeTimer = setTimeout(() => {
      this.written = writeView(this.view());
      history.replaceState(null, "", this.written);
    }, 200);
  }

  private restore(view: View): void {
    const { model } = this;
    this.search.value = view.search;
    this.state.memory.value = view.memory;
    this.bookmarks.merge(view.bookmarks);
    if (view.positions.length > 0) model.restore(view.positions, view.active);
    for (const id of view.panes) this.selectPane(id);
    const look = (): void => { if (view.from !== null && view.to !== null) this.timeline.restore({ from: view.from, to: view.to }); };
    if (view.byTime) void this.setAxis(true).then(look);
    else look();
  }

  private async copyLink(): Promise<void> {
    try {
      await navigator.clipboard.writeText(location.href);
      this.model.notice("The link of this view was copied.");
    } catch {
      this.model.notice("The browser does not allow copying; the address of the page is the link.");
    }
  }
}

async function start(): Promise<void> {
  setUpTheme();
  const banner = byId("banner");
  let page: Page | null = null;
  const open = async (): Promise<void> => {
    try {
      const answer = await request("traces", {}, new AbortController().signal);
      if (page) page.resume();
      else if (answer.traces.every(trace => trace.sources.length > 0)) page = new Page(answer);
      else throw new Error("There is no source of instructions in this trace.");
    } catch (error) {
      if (!(error instanceof Unreachable)) setText(byId("notice"), sentence(error) ?? "", 300);
    }
  };
  onReachable(reachable => { banner.hidden = reachable; });
  byId("retry").addEventListener("click", () => void open());
  await open();
}

void start();
