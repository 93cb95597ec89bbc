"use strict";
// One look a second at /live.json, the last minutes from /live/history.json. Everything that a server says is set as
// text, never as markup.
const HISTORY = 300, PERIOD_MS = 1000, ANSWER_MS = 5000;
const IDLES = {
  no_work: "nothing waited", batch_delay: "waited for company", gather: "a step was prepared",
  launch: "on its way to the device", shared: "steps of others ran", scatter: "answers were copied out",
};
const ROLES = {frontdoor: "front doors", dispatcher: "dispatchers"};
const NONE = "–";
let columns = [], lines = [], last = null, paused = false;

// ---- words
const three = (x) => x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
const count = (x) => x == null ? NONE : x >= 100 ? Math.round(x).toLocaleString("en") : three(x).replace(/\.?0+$/, "");
const percent = (x) => x == null ? NONE : (x > 0 && x < 0.0995 ? (100 * x).toFixed(1) : (100 * x).toFixed(0)) + " %";
function span(us) {
  if (us == null) return NONE;
  for (const [unit, size] of [["µs", 1], ["ms", 1e3]]) if (us < 999.5 * size) return `${three(us / size)} ${unit}`;
  return `${three(us / 1e6)} s`;
}
const mean = (shares) => shares.length ? shares.reduce((sum, x) => sum + x, 0) / shares.length : null;
const bytes = (x) => x < 1e3 ? `${count(x)} B` : x < 1e6 ? `${three(x / 1e3)} kB` : `${three(x / 1e6)} MB`;

// ---- elements
const by = (id) => document.getElementById(id);
function make(name, attributes, ...inside) {
  const svg = ["svg", "path", "line", "text", "g"].includes(name);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...inside.filter((part) => part != null));
  return element;
}
function table(id, head, rows) {
  const cells = (row) => make("tr", null, ...row.map((cell) => cell instanceof Node ? cell : make("td", null, cell)));
  by(id).replaceChildren(
    make("thead", null, make("tr", null, ...head.map((name) => make("th", null, name)))),
    make("tbody", null, ...(rows.length ? rows : [[make("td", {colspan: head.length}, "nothing")]]).map(cells)));
}
function stack(parts) {
  const shown = parts.filter(([, share]) => share > 0);
  return make("td", {class: "bar"}, make("div", {class: "stack"}, ...shown.map(([colour, share, title]) =>
    make("span", {style: `width:${100 * share}%;background:var(--${colour})`, title: `${title}: ${percent(share)}`}))));
}

// ---- charts
function niceTop(most) {
  const size = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * size).find((top) => top >= most);
}
const MARK = {area: (c) => ({fill: c, "fill-opacity": 0.55}), line: (c) => ({fill: "none", stroke: c, "stroke-width": 1.6})};
// series: [column, name, colour, area|line]; areas are stacked.
function chart(title, series, {top, label = count, log = false} = {}) {
  const W = by("charts").firstElementChild?.clientWidth || 600, H = 130, LEFT = 4, BASE = H - 16, TOP = 16, now = lines.length ? lines[lines.length - 1][0] : 0;
  const at = (name) => columns.indexOf(name);
  const values = lines.map((line) => series.map(([name]) => line[at(name)]));
  const areas = series.map(([,,, kind]) => kind === "area");
  const highest = Math.max(0, ...values.map((row) => Math.max(
    row.reduce((sum, v, i) => sum + (areas[i] ? v || 0 : 0), 0), ...row.map((v) => v || 0))));
  const most = top || niceTop(highest || 1);
  const floor = log ? Math.min(...values.flat().filter((v) => v > 0), most / 10) : 0;
  const bottom = log ? 10 ** Math.floor(Math.log10(floor)) : 0;
  const x = (second) => W - (now - second) * (W - LEFT) / HISTORY;
  const y = (v) => BASE - (BASE - TOP) * Math.min(1, log
    ? Math.log(Math.max(v, bottom) / bottom) / Math.log(most / bottom) : v / most);
  const picture = make("svg", {viewBox: `0 0 ${W} ${H}`, preserveAspectRatio: "none", role: "img", "aria-label": title});
  for (const [v, height] of [[most, TOP], [bottom, BASE]]) {
    picture.append(make("line", {x1: 0, x2: W, y1: height, y2: height}));
    picture.append(make("text", {x: LEFT, y: height - 3}, label(v)));
  }
  for (const [text, attributes] of [["5 minutes ago", {x: LEFT}], ["now", {x: W - LEFT, "text-anchor": "end"}]])
    picture.append(make("text", {...attributes, y: H - 4}, text));
  const base = values.map(() => 0);
  series.forEach(([,, colour, kind], i) => {
    let path = "", floorPath = "", pen = false;
    values.forEach((row, j) => {
      if (row[i] == null) { pen = false; return; }
      const v = kind === "area" ? base[j] + row[i] : row[i], px = x(lines[j][0]).toFixed(1);
      if (kind === "area") floorPath = `L${px},${y(base[j]).toFixed(1)}` + floorPath, base[j] = v;
      path += `${pen ? "L" : kind === "area" && path ? "L" : "M"}${px},${y(v).toFixed(1)}`;
      pen = true;
    });
    if (path) picture.append(make("path", {d: kind === "area" ? path + floorPath + "Z" : path, "vector-effect": "non-scaling-stroke", ...MARK[kind](`var(--${colour})`)}));
  });
  const names = series.flatMap(([, name, colour]) => [make("em", {style: `--c:var(--${colour})`}, name), "  "]);
  return make("figure", null, make("figcaption", null, `${title}: `, ...names), picture);
}
function drawCharts() {
  const first = !by("charts").firstElementChild;  // their width is known once there is one
  by("charts").replaceChildren(
    chart("Items per second", [["ok", "OK", "busy", "area"], ["other", "any other status", "bad", "area"]]),
    chart("Latency", [["p50", "p50", "busy", "line"], ["p99", "p99", "p99", "line"]], {label: span, log: true}),
    chart("Queue", [["waiting", "waiting", "p99", "area"], ["running", "running", "busy", "line"]]),
    chart("Share", [["active", "device busy", "busy", "area"], ["saturation", "saturation", "bad", "line"]],
      {top: Math.min(2, Math.max(1, ...lines.map((line) => line[columns.indexOf("saturation")] || 0))), label: percent}));  // it has no end
  if (first) drawCharts();
}

// ---- the parts
function tile(name, value, below, tone) {
  return make("div", {class: `tile ${tone || ""}`}, make("span", null, name), make("b", null, value), make("i", null, below || ""));
}
function drawTiles(s) {
  const all = Object.values(s.codes).reduce((sum, rate) => sum + rate, 0), ok = s.codes.OK || 0;
  const waiting = s.models.reduce((sum, model) => sum + model.waiting, 0);
  const oldest = Math.max(0, ...s.models.map((model) => model.oldest));
  const active = mean(Object.values(s.devices));
  const load = s.load || {};
  by("tiles").replaceChildren(
    tile("Items per second", count(all), all > ok ? `${percent((all - ok) / all)} not OK` : "all OK", all > ok ? "doubtful" : ""),
    tile("p50", span(s.latency.p50), `mean ${span(s.latency.mean)}`),
    tile("p99", span(s.latency.p99), `p90 ${span(s.latency.p90)}`),
    tile("Waiting", count(waiting), oldest ? `the oldest for ${span(oldest)}` : `${count(s.running)} running`),
    tile("Device busy", percent(active), Object.keys(s.devices).length > 1 ? `mean of ${Object.keys(s.devices).length} devices` : s.device),
    tile("Saturation", load.saturation == null ? NONE : load.saturation.toFixed(2), load.saturation == null ? "" :
      [load.cause && `by ${load.cause.replace("_", " ")}`, load.headroom != null && `${count(load.headroom)}/s left`].filter(Boolean).join(", "),
      load.saturation >= 1 ? "bad" : load.saturation >= 0.85 ? "doubtful" : ""));
}
function drawStatus(s) {
  const restarts = Object.entries(s.restarts).filter(([, n]) => n).map(([role, n]) => `of ${ROLES[role]}: ${n}`).join(", ");
  const text = !s.ready ? `not ready: ${s.reasons.join("; ")}` : s.degraded.length ? `ready, degraded: ${s.degraded.join("; ")}` : "ready";
  status(restarts ? `${text}. Restarts ${restarts}` : text, !s.ready ? "bad" : s.degraded.length ? "doubtful" : "good");
  by("version").textContent = s.version;
  by("about").textContent = `${s.models.map((m) => `${m.name}@${m.version}`).join(", ")} on ${s.device}`;
  document.title = `${count(Object.values(s.codes).reduce((a, b) => a + b, 0))}/s · fastqps`;
}
function status(text, tone) {
  by("status").textContent = text;
  by("status").className = tone;
}
function drawDispatchers(s) {
  const rows = [];
  for (const [device, active] of Object.entries(s.devices)) {
    rows.push([make("th", null, device), stack([["busy", active, "any dispatcher's step"]]), percent(active), "", "", make("td", {class: "why"}, "any dispatcher's step")]);
    for (const d of s.dispatchers.filter((other) => other.device === device)) {
      const why = Object.entries(d.idle).filter(([, share]) => share >= 0.005).sort((a, b) => b[1] - a[1]);
      rows.push([`dispatcher ${d.index}, ${d.model}`,
        stack([["busy", d.busy || 0, "busy"], ...Object.keys(IDLES).map((name) => [name, d.idle[name] || 0, IDLES[name]])]),
        percent(d.busy), `${count(d.steps)}/s`, `${count(d.items)}/s`,
        d.ready ? make("td", {class: "why"}, why.map(([name, share]) => `${name.replace("_", " ")} ${percent(share)}`).join(", ")) : make("td", {class: "bad"}, "not ready")]);
    }
  }
  table("dispatchers", ["", "", "busy", "steps", "items", ""], rows);
}
function drawUpstreams(s) {
  by("edge").hidden = !s.upstreams.length;
  table("upstreams", ["upstream", "", "saturation", "in flight", "window", "round trip", "sent", "answered", "refused", "lost", "out", "in"],
    s.upstreams.map((u) => [u.name,
      make("td", {class: u.state === "serving" ? "good" : "bad"}, u.reason ? `${u.state}: ${u.reason}` : u.state),
      u.utilization.toFixed(2), count(u.in_flight), count(u.window), span(u.rtt),
      ...["sent", "answered", "refused", "lost"].map((event) => `${count(u.rates[event])}/s`),
      `${bytes(u.sent_bytes)}/s`, `${bytes(u.received_bytes)}/s`]));
}
function draw(s) {
  drawStatus(s);
  drawTiles(s);
  drawCharts();
  drawDispatchers(s);
  drawUpstreams(s);
  const stages = Object.entries(s.stages), whole = stages.reduce((sum, [, stage]) => sum + (stage.mean || 0), 0);
  table("stages", ["stage", "", "mean", "p99"], stages.map(([name, stage]) =>
    [name, stack([["busy", whole ? (stage.mean || 0) / whole : 0, name]]), span(stage.mean), span(stage.p99)]));
  table("codes", ["status, or reason", "per second"], [
    ...Object.entries(s.codes).map(([code, rate]) => [code, count(rate)]),
    ...Object.entries(s.refused).map(([reason, rate]) => [`refused: ${reason.replace("_", " ")}`, count(rate)]),
    ...(s.expired ? [["deadline passed", count(s.expired)]] : [])]);
  table("models", ["model", "version", "waiting", "by class", "oldest", "batch", "fill", "tokens made"], s.models.map((m) =>
    [m.name, m.version, count(m.waiting), Object.entries(m.waiting_by_class).map(([kind, n]) => `${kind} ${count(n)}`).join(", ") || NONE, m.oldest ? span(m.oldest) : NONE, count(m.batch_items), percent(m.fill), m.tokens_made == null ? NONE : `${count(m.tokens_made)}/s`]));
  table("doors", ["front door", "connections", "received", "sent"], s.doors.map((d) =>
    [`${d.index}${d.ready ? "" : " (not ready)"}`, count(d.connections), `${bytes(d.received)}/s`, `${bytes(d.sent)}/s`]));
  document.body.classList.remove("stale");
}

// ---- looking
async function ask(path) {
  const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS)});
  if (!answer.ok) throw new Error(`${path} answers ${answer.status}`);
  return answer.json();
}
function remember(s) {
  lines.push(s.line);
  while (lines.length && lines[0][0] < s.at - HISTORY) lines.shift();
}
async function look() {
  try {
    if (!columns.length) ({columns, lines} = await ask("/live/history.json"));
    const s = await ask("/live.json");
    if (s && (!last || s.at !== last.at)) {
      if (!lines.length || lines[lines.length - 1][0] < s.at) remember(s);
      last = s;
      if (!paused) draw(s);
    }
  } catch (error) {
    document.body.classList.add("stale");
    columns = [];  // another server may answer next
    status(`no answer from the server (${error.message}); asking again`, "bad");
  }
  setTimeout(look, PERIOD_MS);
}
by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
  by("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused && last) draw(last);
});
by("legend").replaceChildren(...[["busy", "a step ran"], ...Object.entries(IDLES)].map(([name, text]) =>
  make("span", {style: `--c:var(--${name})`}, name === "busy" ? "busy" : `${name.replace("_", " ")}: ${text}`)));
look();
