"use strict";
(() => {
  const [width, margin, character, minimum] = [1180, 10, 7, 0.3];
  const root = document.currentScript ? document.currentScript.closest("svg") : document.documentElement;
  const id = name => root.querySelector("#" + name);
  const frames = Array.from(id("frames").children, element => ({
    element,
    x: Number(element.dataset.x),
    width: Number(element.dataset.w),
    depth: Number(element.dataset.d),
    name: element.querySelector("title").textContent.split("\n")[0],
    description: element.querySelector("title").textContent.replace("\n", ": "),
    rect: element.querySelector("rect"),
    label: element.querySelector("text"),
  }));
  const summary = id("detail").textContent;
  const tiny = 1e-7;

  const zoom = to => {
    for (const frame of frames) {
      const start = Math.max(frame.x, to.x);
      const end = Math.min(frame.x + frame.width, to.x + to.width);
      const pixels = Math.max(0, end - start) / to.width * width;
      const isOuter = frame.depth < to.depth;
      const isShown = end - start > tiny / 10 && pixels >= (to.depth > 0 ? minimum : 0)
        && (!isOuter || frame.x <= to.x + tiny && frame.x + frame.width >= to.x + to.width - tiny);
      frame.element.classList.toggle("hidden", !isShown);
      frame.element.classList.toggle("outer", isOuter);
      if (!isShown) continue;
      const left = margin + (start - to.x) / to.width * width;
      frame.rect.setAttribute("x", left.toFixed(2));
      frame.rect.setAttribute("width", pixels.toFixed(2));
      frame.label.setAttribute("x", (left + 3).toFixed(2));
      const [name, fits] = [frame.name, Math.floor((pixels - 6) / character)];
      frame.label.textContent = name.length <= fits ? name : fits < 3 ? "" : name.slice(0, fits - 2) + "..";
    }
    id("reset").classList.toggle("hidden", to.depth === 0);
  };

  const search = text => {
    let pattern = null;
    if (text !== "") {
      try { pattern = new RegExp(text, "i"); }
      catch { pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"); }
    }
    let [share, end] = [0, -1];
    for (const frame of frames) {
      const isFound = pattern !== null && pattern.test(frame.name);
      frame.element.classList.toggle("found", isFound);
      // Frames come before those that they call: what is within a found one is counted already.
      if (isFound && frame.x >= end - tiny) {
        share += frame.width;
        end = frame.x + frame.width;
      }
    }
    id("matched").textContent = pattern === null ? "" : "Matched: " + (share * 100).toFixed(2) + "%";
  };

  for (const frame of frames) {
    frame.element.addEventListener("click", () => zoom(frame));
    frame.element.addEventListener("mouseenter", () => { id("detail").textContent = frame.description; });
    frame.element.addEventListener("mouseleave", () => { id("detail").textContent = summary; });
  }
  id("reset").addEventListener("click", () => zoom(frames[0]));
  const field = id("search").querySelector("input");
  id("search").classList.remove("hidden");
  field.addEventListener("input", () => search(field.value));
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") {
      field.value = "";
      search("");
      zoom(frames[0]);
    }
  });
})();
