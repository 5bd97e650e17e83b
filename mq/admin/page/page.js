// The overview, the way between the two views, and the keys.

import { ask, listen } from "./server.js";
import { age, byId, counted, draw, element, endQuestion, newPlot, number, rate, toast } from "./view.js";
import * as queueView from "./queue.js";

const PLACES = 180; // looks that the plots remember
const COLUMNS = [
  ["queue", "Queue"], ["ready", "Ready"], ["leased", "Leased"], ["delayed", "Delayed", "wide"],
  ["dead", "Dead"], ["in", "In / s", "wide"], ["out", "Out / s", "wide"], ["age", "Oldest", "wide"],
  ["plot", "Last minutes", "wide"],
];
const TOTALS = [["published", "published / s"], ["received", "received / s"], ["removed", "removed / s"]];

const queues = new Map(); // name -> [ready, leased, delayed, oldest, published, removed]
const histories = new Map(); // name -> what its plots show, the newest last
const rows = new Map(); // name -> its row of the table, and the cells of it
let paused = new Set(); // names
let totals = {};
let before = null;
const rates = Object.fromEntries(TOTALS.map(([kind]) => [kind, []]));
let now = 0;
let trouble = null; // why the server is not ready
let toldKind = ""; // what a screen reader was told of the server's state, without the figures
let mayWrite = false;
let sort = { by: "ready", down: true };
let chosen = "";
let shownQueue = "";
let order = [];

// What the server says

function heard(kind, data) {
  now = data.time;
  trouble = data.trouble;
  paused = new Set(data.paused);
  if (kind === "whole") {
    mayWrite = data.about.may_write;
    byId("about").textContent = `${data.about.root} \u00b7 ${data.about.version}`;
    byId("make-queue").hidden = !mayWrite;
    for (const name of [...queues.keys()]) if (!Object.hasOwn(data.queues, name)) forget(name);
    before = null;
    for (const history of histories.values()) history.before = null;
  } else {
    data.gone.forEach(forget);
  }
  for (const [name, row] of Object.entries(data.queues)) queues.set(name, row);
  const seconds = before ? now - before.time : 0;
  takeTotals(data.totals);
  for (const [name, row] of queues) takeCounts(name, row, seconds);
  if (kind === "whole") route();
  render();
}

function forget(name) {
  queues.delete(name);
  histories.delete(name);
  rows.get(name)?.row.remove();
  rows.delete(name);
}

function takeCounts(name, row, seconds) {
  let history = histories.get(name);
  if (!history) histories.set(name, history = { ready: [], in: [], out: [], before: null });
  remember(history.ready, row[0]);
  if (history.before && seconds > 0) {
    remember(history.in, Math.max(0, row[4] - history.before[4]) / seconds);
    remember(history.out, Math.max(0, row[5] - history.before[5]) / seconds);
  }
  history.before = row;
}

function remember(values, value) {
  values.push(value);
  if (values.length > PLACES) values.shift();
}

function takeTotals(found) {
  if (before && now > before.time) {
    for (const [kind] of TOTALS) {
      remember(rates[kind], Math.max(0, (found[kind] - before.found[kind]) / (now - before.time)));
    }
  }
  before = { time: now, found };
  totals = found;
}

function state(word, why = "") {
  const shown = byId("state");
  const said = { live: trouble ? `not ready: ${trouble}` : "live", silent: "no news: the server is silent" };
  shown.className = word === "live" && !trouble ? "live" : "lost";
  shown.textContent = said[word] ?? `no connection${why ? `: ${why}` : ""}`;
  // A screen reader need not hear figures that change each second.
  const kind = shown.textContent.replace(/\d+/g, "");
  if (kind !== toldKind) byId("state-told").textContent = shown.textContent;
  toldKind = kind;
}

// The overview

function columnOf(name, row, column) {
  if (column === "queue") return name;
  if (column === "dead") return queueView.isDead(name) ? -1 : queues.get(queueView.deadOf(name))?.[0] ?? 0;
  if (column === "in" || column === "out") return histories.get(name)?.[column].at(-1) ?? 0;
  if (column === "age") return row[3] === null ? -1 : now - row[3];
  return row[{ ready: 0, leased: 1, delayed: 2, plot: 0 }[column]];
}

function compare([one, oneRow], [other, otherRow]) {
  const a = columnOf(one, oneRow, sort.by), b = columnOf(other, otherRow, sort.by);
  const found = typeof a === "string" ? a.localeCompare(b) : a - b;
  return (sort.down ? -found : found) || one.localeCompare(other);
}

function render() {
  if (shownQueue) {
    queueView.update(queues.get(shownQueue), histories.get(shownQueue), now, paused.has(shownQueue));
    return;
  }
  renderTotals();
  const wanted = byId("search").value.trim().toLowerCase();
  const found = [...queues].filter(([name]) => name.toLowerCase().includes(wanted)).sort(compare);
  order = found.map(([name]) => name);
  const stop = order.includes(chosen) ? chosen : order[0];
  const body = document.querySelector("#queues tbody");
  let at = body.firstChild;
  for (const [name, row] of found) {
    const shown = rowOf(name);
    if (shown.row === at) at = at.nextSibling;
    else body.insertBefore(shown.row, at);
    renderRow(shown, name, row);
    // The key Tab stops at one row; arrows go on from there.
    shown.link.tabIndex = name === stop ? 0 : -1;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
  byId("shown").textContent = `${found.length === queues.size ? "" : `${number(found.length)} of `}${counted(queues.size, "queue")}`;
  byId("empty").hidden = found.length > 0;
  byId("empty").textContent = queues.size ? "No queue has that in its name." : mayWrite ? "There is no queue yet. Create the first one above." : "There is no queue yet. Make one with \u201cmqctl create orders\u201d, or with PUT /orders on the main port.";
  byId("queues").hidden = found.length === 0;
}

function rowOf(name) {
  let shown = rows.get(name);
  if (!shown) {
    const link = element("a", { href: `#/queues/${encodeURIComponent(name)}`, textContent: name, tabIndex: -1 });
    const first = element("div", { className: "named" }, link), plot = newPlot();
    const cells = COLUMNS.map(([column, , kind]) => element("td", { className: kind ?? "" }, column === "queue" ? first : column === "plot" ? plot : ""));
    const row = element("tr", { onclick: () => { location.hash = link.hash; } }, ...cells);
    shown = { row, cells, link, tag: element("span", { className: "tag paused" }, "paused"), plot, texts: [], isChosen: false };
    observer.observe(row);
    rows.set(name, shown);
  }
  return shown;
}

// Plots are drawn where somebody can see them.
const inSight = new WeakSet();
const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inSight.add(target);
    else inSight.delete(target);
  }
});

function renderRow(shown, name, counts) {
  const isInSight = inSight.has(shown.row);
  COLUMNS.forEach(([column, , kind = ""], at) => {
    if (column === "queue") return;
    if (column === "plot") {
      if (isInSight) draw(shown.plot, histories.get(name)?.ready ?? []);
      return;
    }
    const value = columnOf(name, counts, column);
    const text = value < 0 ? "" : column === "age" ? age(value) : column === "in" || column === "out" ? rate(value) : number(value);
    if (shown.texts[at] === text) return;
    shown.texts[at] = text;
    shown.cells[at].textContent = text;
    shown.cells[at].className = `${kind} ${value === 0 ? "zero" : column === "dead" && value > 0 ? "bad" : ""}`;
  });
  if (!paused.has(name)) shown.tag.remove();
  else if (!shown.tag.parentNode) shown.link.after(shown.tag);
  if (shown.isChosen !== (name === chosen)) {
    shown.isChosen = name === chosen;
    shown.row.classList.toggle("chosen", shown.isChosen);
  }
}

let figures = null;
function renderTotals() {
  const sum = (at) => [...queues.values()].reduce((all, row) => all + row[at], 0);
  const dead = [...queues].reduce((all, [name, row]) => all + (queueView.isDead(name) ? row[0] : 0), 0);
  const values = [
    ["ready", number(sum(0))], ["leased", number(sum(1))], ["delayed", number(sum(2))],
    ["dead letters", number(dead), dead > 0],
    ...TOTALS.map(([kind, label]) => [label, rate(rates[kind].at(-1) ?? 0), false, rates[kind]]),
    ...(totals.corrupt ? [["set aside in corrupt", number(totals.corrupt), true]] : []),
  ];
  if (!figures || figures.length !== values.length) {
    figures = values.map(([label, , , history]) => {
      const value = element("b"), box = element("div", { className: "figure" }, value, element("span", {}, label));
      const plot = history ? box.appendChild(newPlot()) : null;
      return { box, value, plot };
    });
    byId("totals").replaceChildren(...figures.map(({ box }) => box));
  }
  values.forEach(([, shown, isBad, history], at) => {
    const { box, value, plot } = figures[at];
    if (value.textContent !== shown) value.textContent = shown;
    box.classList.toggle("bad", Boolean(isBad));
    if (plot) draw(plot, history);
  });
}

function makeHead() {
  const cells = COLUMNS.map(([column, label, kind = ""]) => {
    const button = element("button", { type: "button" }, label);
    button.onclick = () => {
      sort = { by: column, down: sort.by === column ? !sort.down : column !== "queue" };
      markSort();
      render();
    };
    return element("th", { scope: "col", className: kind, "data-column": column }, button);
  });
  document.querySelector("#queues thead tr").replaceChildren(...cells);
  markSort();
}

function markSort() {
  for (const cell of document.querySelectorAll("#queues th")) {
    if (cell.dataset.column === sort.by) cell.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
}

// From one view to the other

function route() {
  const wanted = location.hash.match(/^#\/queues\/([A-Za-z0-9][\w.-]*)$/)?.[1] ?? "";
  byId("overview").hidden = Boolean(wanted);
  byId("queue").hidden = !wanted;
  document.title = wanted ? `${wanted} \u00b7 MQ` : "MQ";
  if (wanted !== shownQueue) {
    endQuestion();
    if (shownQueue) queueView.close();
    shownQueue = wanted;
    if (wanted) {
      chosen = wanted;
      queueView.open(wanted, mayWrite);
    }
  }
  render();
}

// A keyboard, and a screen reader, goes on where the view begins; back in the overview, at the queue
// that was left.
function land() {
  if (shownQueue) byId("name").focus();
  else if (document.activeElement.id !== "search") rows.get(chosen)?.link.focus();
}

function step(by) {
  if (shownQueue) {
    queueView.move(by);
    return;
  }
  const at = order.indexOf(chosen);
  chosen = order[Math.min(order.length - 1, Math.max(0, at < 0 ? 0 : at + by))] ?? "";
  render();
  const shown = rows.get(chosen);
  shown?.row.scrollIntoView({ block: "nearest" });
  if (document.activeElement.id !== "search") shown?.link.focus({ preventScroll: true });
}

const KEYS = {
  "/": () => { location.hash = "#/"; setTimeout(() => byId("search").focus()); },
  "?": () => byId("help").showModal(),
  ArrowDown: () => step(1), j: () => step(1), ArrowUp: () => step(-1), k: () => step(-1),
  // What was searched for is the first one that was found.
  Enter: () => {
    const wanted = chosen || (byId("search").value.trim() && order[0]);
    if (wanted && !shownQueue) location.hash = `#/queues/${encodeURIComponent(wanted)}`;
  },
  Escape: () => { if (shownQueue) location.hash = "#/"; },
  r: () => { if (shownQueue) queueView.look(); },
  ...Object.fromEntries([0, 1, 2].map((at) => [at + 1, () => { if (shownQueue) queueView.pick(at); }])),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.matches("input, textarea");
  if (isTyping) {
    if (event.key === "Escape") event.target.blur();
    if (event.target.id !== "search" || !["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) return;
  } else if (event.key === "Enter" && event.target.matches("button, a, summary")) {
    return;
  } else if (event.key.startsWith("Arrow") && event.target.matches("#message pre, #message dl")) {
    return; // they scroll what has more than one can see
  }
  if (event.key in KEYS) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

byId("search").oninput = () => { chosen = ""; render(); };
byId("help-button").onclick = () => byId("help").showModal();
byId("make-queue").onsubmit = async (event) => {
  event.preventDefault();
  const name = byId("new-queue").value.trim();
  try {
    await ask("PUT", `/${encodeURIComponent(name)}`);
    byId("new-queue").value = "";
    toast(`Created ${name}.`);
  } catch (error) {
    toast(error.message);
  }
};
window.addEventListener("hashchange", () => { route(); land(); });
makeHead();
listen(heard, state);
