"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("timeline");
  const about = document.getElementById("about");
  const [width, row, head] = [1198, 16, 18];
  let [top, start, end] = [0, Infinity, -Infinity];
  for (const track of data.tracks) {
    let depth = 0;
    for (const [from, to, level] of track.slices) {
      start = Math.min(start, from);
      end = Math.max(end, to);
      depth = Math.max(depth, level + 1);
    }
    for (const [at] of track.instants) {
      start = Math.min(start, at);
      end = Math.max(end, at);
      depth = Math.max(depth, 1);
    }
    track.top = top;
    top += head + depth * row;
  }
  if (!(end > start)) [start, end] = [0, 1];
  [canvas.width, canvas.height] = [width, Math.max(top, head)];
  const whole = [start, end];
  let shown = whole;
  const context = canvas.getContext("2d");
  const x = at => (at - shown[0]) / (shown[1] - shown[0]) * width;
  const color = name => {
    let hash = 0x811c9dc5;
    for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0), 0x01000193);
    return `hsl(${(hash >>> 0) % 360} 60% 70%)`;
  };

  const draw = () => {
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.font = "11px monospace";
    for (const track of data.tracks) {
      context.fillStyle = "#000";
      context.fillText(track.name, 3, track.top + 13);
      for (const [from, to, depth, name] of track.slices) {
        if (to < shown[0] || from > shown[1]) continue;
        const [left, right] = [Math.max(0, x(from)), Math.min(width, x(to))];
        const y = track.top + head + depth * row;
        context.fillStyle = color(name);
        context.fillRect(left, y, Math.max(right - left - 0.5, 0.5), row - 1);
        const fits = Math.floor((right - left - 4) / 6.6);
        context.fillStyle = "#000";
        if (fits > 2) context.fillText(name.slice(0, fits), left + 2, y + 11);
      }
      context.fillStyle = "#06c";
      for (const [at] of track.instants) {
        if (at < shown[0] || at > shown[1]) continue;
        context.beginPath();
        context.arc(x(at), track.top + head + row / 2, 3, 0, 2 * Math.PI);
        context.fill();
      }
    }
    context.fillStyle = "#d00";
    for (const [at] of data.marks) context.fillRect(x(at), 0, 1, canvas.height);
  };

  const show = (from, to) => {
    const length = Math.min(to - from, whole[1] - whole[0]);
    const first = Math.min(Math.max(from, whole[0]), whole[1] - length);
    shown = [first, first + length];
    draw();
  };
  const at = event => shown[0] + event.offsetX / width * (shown[1] - shown[0]);
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const [center, factor] = [at(event), event.deltaY < 0 ? 0.8 : 1.25];
    show(center - (center - shown[0]) * factor, center + (shown[1] - center) * factor);
  }, { passive: false });
  canvas.addEventListener("mousemove", event => {
    if (event.buttons & 1) {
      const moved = event.movementX / width * (shown[1] - shown[0]);
      return show(shown[0] - moved, shown[1] - moved);
    }
    const [time, y] = [at(event), event.offsetY];
    const found = data.tracks.flatMap(track => track.slices.filter(([from, to, depth]) =>
      from <= time && time <= to && y >= track.top + head + depth * row && y < track.top + head + (depth + 1) * row));
    const near = 4 * (shown[1] - shown[0]) / width;
    const point = data.tracks.flatMap(track => track.instants.filter(([at]) =>
      Math.abs(at - time) <= near && y >= track.top + head && y < track.top + head + row));
    if (point.length) about.textContent = `${point[0][1]}: ${point[0][0]}`;
    else about.textContent = found.length ? `${found[0][3]}: ${found[0][0]} to ${found[0][1]}` : "\u00a0";
  });
  draw();
})();
