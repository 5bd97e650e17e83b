// One queue: its counts, its settings, and what may be done with all of it.

import { ask } from "/server.js";
import { age, button, byId, confirmed, destination, draw, element, newPlot, number, rate, toast, tried } from "/view.js";
import * as list from "/messages.js";

const STATES = ["ready", "leased", "delayed"];
const PLOTS = { ready: "ready", "in / s": "in", "out / s": "out" };

let name = "";
let state = "ready";
let mayWrite = false;
let isPaused = false;
let cards = null;

const path = (rest = "") => list.pathOf(name, rest);

export function open(queue, canWrite) {
  [name, state, mayWrite, isPaused, cards] = [queue, "ready", canWrite, false, null];
  byId("name").replaceChildren(queue);
  byId("cards").replaceChildren();
  byId("settings").hidden = true;
  for (const each of document.querySelectorAll("#queue .write")) each.hidden = !canWrite;
  offerActions();
  list.show(name, state, mayWrite);
  showSettings();
}

export function close() {
  name = "";
  list.clear();
}

export const look = () => list.look();
export const move = (by) => list.move(by);

// Show the messages of that state, 0 to 2.
export function pick(at) {
  state = STATES[at];
  markState();
  list.show(name, state, mayWrite);
}

function markState() {
  cards?.slice(0, STATES.length).forEach(({ box }, at) => {
    box.setAttribute("aria-selected", STATES[at] === state);
    box.tabIndex = STATES[at] === state ? 0 : -1;
  });
}

// `row` is [ready, leased, delayed, oldest, ...], undefined if there is no such queue any more.
export function update(row, history, now) {
  if (!row) {
    byId("note").textContent = "There is no such queue.";
    return;
  }
  if (!cards) makeCards();
  const shown = [
    number(row[0]), number(row[1]), number(row[2]), rate(history.in.at(-1) ?? 0), rate(history.out.at(-1) ?? 0),
    age(row[3] === null ? null : Math.max(0, now - row[3])) || "\u2013",
  ];
  cards.forEach(({ value, plot, of }, at) => {
    if (value.textContent !== shown[at]) value.textContent = shown[at];
    if (plot) draw(plot, history[of]);
  });
}

function makeCards() {
  cards = [...STATES, "in / s", "out / s", "oldest ready"].map((label, at) => {
    const value = element("b"), isState = at < STATES.length, of = PLOTS[label];
    const box = element(isState ? "button" : "div",
      isState ? { className: "figure", type: "button", role: "tab", title: `Show these messages (${at + 1})`, onclick: () => pick(at) } : { className: "figure" },
      value, element("span", {}, label));
    return { box, value, of, plot: of ? box.appendChild(newPlot()) : null };
  });
  byId("cards").replaceChildren(...cards.map(({ box }) => box));
  markState();
}

async function showSettings() {
  const asked = name;
  try {
    const { settings = {} } = await (await ask("GET", path())).json();
    if (asked !== name) return;
    const rows = Object.entries(settings).map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, String(value))));
    byId("settings").replaceChildren(...rows);
    byId("settings").hidden = !rows.length;
    isPaused = settings.paused === true;
    byId("paused").hidden = !isPaused;
    offerActions();
  } catch { /* the list of messages says what is wrong */ }
}

function offerActions() {
  byId("actions").replaceChildren(
    button(isPaused ? "Resume" : "Pause", isPaused ? resume : pause),
    button("Move all", moveAll), ...(list.isDead(name) ? [button("Redrive", redrive)] : []),
    button("Purge", purge, true), button("Delete queue", removeQueue, true));
}

async function pause() {
  if (!await confirmed("Pause", "Workers get no message until you resume. Publishing goes on.")) return;
  if (await tried(() => ask("PUT", path("?paused=true")), `Paused ${name}.`)) showSettings();
}

async function resume() {
  if (await tried(() => ask("PUT", path("?paused=")), `Resumed ${name}.`)) showSettings();
}

async function purge() {
  const what = "All messages of the queue, leased and delayed ones too, are removed for good. The queue and its settings stay.";
  if (!await confirmed("Purge", what, name)) return;
  await tried(async () => {
    const { purged } = await (await ask("DELETE", path("?purge"))).json();
    toast(`Removed ${number(purged)} message${purged === 1 ? "" : "s"} from ${name}.`);
  });
  look();
}

// As many requests as it takes for those that are ready now.
async function moveReady(target, reason = "") {
  await tried(async () => {
    let left = (await (await ask("GET", path())).json()).ready, all = 0, stay = 0, went = 1;
    while (left > 0 && went > 0) {
      ({ went, stay } = await list.moved(name, target, { max: Math.min(left, 1000) }, reason));
      all += went;
      left -= went;
    }
    toast(`Moved ${number(all)} messages to ${target}.${stay ? ` ${number(stay)} stay: ${target} has others of their ids.` : ""}`);
  });
  look();
}

async function moveAll() {
  const to = await destination("Move all", "All messages that are ready, oldest first.", list.isDead(name) ? list.aliveOf(name) : "");
  if (to) await moveReady(to.target, to.reason);
}

async function redrive() {
  const queue = list.aliveOf(name);
  if (await confirmed("Redrive", `All messages that are ready go back to ${queue}, and count as not received.`)) await moveReady(queue);
}

async function removeQueue() {
  const what = "The queue and all its messages, leased and delayed ones too, are deleted for good.";
  if (!await confirmed("Delete queue", what, name)) return;
  if (await tried(() => ask("DELETE", path()), `Deleted ${name}.`)) location.hash = "#/";
}

byId("publish").onsubmit = async (event) => {
  event.preventDefault();
  const type = byId("type").value.trim(), delay = byId("delay").value;
  const headers = type ? { "Content-Type": type } : { "Content-Type": "text/plain; charset=utf-8" };
  const query = delay ? `?delay=${encodeURIComponent(delay)}` : "";
  const done = await tried(() => ask("POST", path(`/messages${query}`), { headers, body: byId("body").value }), "Published.");
  if (done) {
    byId("body").value = "";
    look();
  }
};
byId("cards").addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by || event.target.role !== "tab") return;
  pick((STATES.indexOf(state) + by + STATES.length) % STATES.length);
  cards[STATES.indexOf(state)].box.focus();
});
export const { isDead, deadOf } = list;
