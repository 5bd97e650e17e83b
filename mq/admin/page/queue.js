// One queue: its counts, its settings, and what may be done with all of it.

import { ask } from "./server.js";
import { age, button, byId, confirmed, counted, destination, draw, element, newPlot, number, rate, tell, toast, tried } from "./view.js";
import * as list from "./messages.js";

const STATES = ["ready", "leased", "delayed"];
const PLOTS = { ready: "ready", "in / s": "in", "out / s": "out" };

let name = "";
let state = "ready";
let mayWrite = false;
let isPaused = false; // as its settings said
let wasPaused = null; // as the server said last, which may learn of a change by others later
let cards = null;
let isThere = true;

const path = (rest = "") => list.pathOf(name, rest);

export function open(queue, canWrite) {
  [name, state, mayWrite, isPaused, wasPaused, cards, isThere] = [queue, "ready", canWrite, false, null, null, true];
  byId("name").replaceChildren(queue);
  byId("cards").replaceChildren();
  for (const each of ["settings", "paused"]) byId(each).hidden = true;
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
export function update(row, history, now, isPausedNow) {
  const wasThere = isThere;
  isThere = Boolean(row);
  for (const each of document.querySelectorAll("#queue .write")) each.hidden = !(mayWrite && isThere);
  if (!isThere) {
    tell(byId("note"), "There is no such queue.");
    return;
  }
  if (!wasThere) look();
  if (!wasThere || (wasPaused ?? isPausedNow) !== isPausedNow) showSettings();
  wasPaused = isPausedNow;
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

// The names of other queues lead to them.
function valueOf(key, value, missing) {
  if (!["also", "dead-letters"].includes(key)) return [String(value)];
  return String(value).split(",").flatMap((each, at) => [at ? ", " : "", element("a", { href: `#/queues/${encodeURIComponent(each)}` }, each), missing.includes(each) ? " (missing)" : ""]);
}

async function showSettings() {
  const asked = name;
  try {
    const { settings = {}, missing = [] } = await (await ask("GET", path())).json();
    if (asked !== name) return;
    const rows = Object.entries(settings).map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, ...valueOf(key, value, missing))));
    byId("settings").replaceChildren(...rows);
    byId("settings").hidden = !rows.length;
    isPaused = settings.paused === true;
    byId("paused").hidden = !isPaused;
    offerActions();
  } catch { /* the list of messages says what is wrong */ }
}

// Each action is for the queue that its button was made for: a person may have gone on to another
// by the time that it is done. A keyboard stays at the button that it has pressed.
function offerActions() {
  const queue = name, pauseOrResume = isPaused ? resume : pause;
  const box = byId("actions"), at = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(
    button(isPaused ? "Resume" : "Pause", () => pauseOrResume(queue)),
    button("Move all", () => moveAll(queue)), ...(list.isDead(queue) ? [button("Redrive", () => redrive(queue))] : []),
    button("Purge", () => purge(queue), true), button("Delete queue", () => removeQueue(queue), true));
  box.children[at]?.focus();
}

async function pause(queue) {
  if (!await confirmed("Pause", "Workers get no message until you resume. Publishing goes on.")) return;
  if (await tried(() => ask("PUT", list.pathOf(queue, "?paused=true")), `Paused ${queue}.`)) showSettings();
}

async function resume(queue) {
  if (await tried(() => ask("PUT", list.pathOf(queue, "?paused=")), `Resumed ${queue}.`)) showSettings();
}

async function purge(queue) {
  const what = "All messages of the queue, leased and delayed ones too, are removed for good. The queue and its settings stay.";
  if (!await confirmed("Purge", what, queue)) return;
  await tried(async () => {
    const { purged } = await (await ask("DELETE", list.pathOf(queue, "?purge"))).json();
    toast(`Removed ${counted(purged, "message")} from ${queue}.`);
  });
  look();
}

// As many requests as it takes for those that are ready now.
async function moveReady(queue, target, reason = "") {
  await tried(async () => {
    let left = (await (await ask("GET", list.pathOf(queue))).json()).ready, all = 0, stay = 0, went = 1;
    while (left > 0 && went > 0) {
      ({ went, stay } = await list.moved(queue, target, { max: Math.min(left, 1000) }, reason));
      all += went;
      left -= went;
    }
    toast(`Moved ${counted(all, "message")} to ${target}.${stay ? ` ${number(stay)} stay: ${target} has others with their ids.` : ""}`);
  });
  look();
}

async function moveAll(queue) {
  const to = await destination("Move all", "All messages that are ready, oldest first.", list.isDead(queue) ? list.aliveOf(queue) : "");
  if (to) await moveReady(queue, to.target, to.reason);
}

async function redrive(queue) {
  const target = list.aliveOf(queue);
  if (await confirmed("Redrive", `All messages that are ready go back to ${target}, and count as not received.`)) await moveReady(queue, target);
}

async function removeQueue(queue) {
  const what = "The queue and all its messages, leased and delayed ones too, are deleted for good.";
  if (!await confirmed("Delete queue", what, queue)) return;
  if (await tried(() => ask("DELETE", list.pathOf(queue)), `Deleted ${queue}.`) && queue === name) location.hash = "#/";
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
