// One queue: its counts, its messages, and what may be done with them.

import { ask, askLines } from "/server.js";
import { age, byId, bytes, confirmed, destination, draw, element, hex, newPlot, number, text, toast } from "/view.js";

const PAGE = 50;
const SHOWN_TEXT = 200_000;
const SHOWN_HEX = 65_536;
const DEAD = ".dead";

let name = "";
let mayWrite = false;
let messages = [];
let chosen = -1;
let cards = null;

const path = (rest = "") => `/${encodeURIComponent(name)}${rest}`;

async function tried(work, done = "") {
  try {
    await work();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  }
}

export function open(queue, canWrite) {
  name = queue;
  mayWrite = canWrite;
  cards = null;
  byId("name").textContent = queue;
  byId("cards").replaceChildren();
  for (const each of document.querySelectorAll("#queue .write")) each.hidden = !canWrite;
  offerActions();
  look();
  showSettings();
}

export function close() {
  name = "";
  clear();
}

// `row` is [ready, leased, delayed, oldest], undefined if there is no such queue any more.
export function update(row, history, now) {
  if (!row) {
    byId("note").textContent = "There is no such queue.";
    return;
  }
  cards ??= ["ready", "leased", "delayed", "oldest ready"].map((label) => {
    const value = element("b"), box = element("div", { className: "figure" }, value, element("span", {}, label));
    byId("cards").append(box);
    return { box, value, plot: label === "ready" ? box.appendChild(newPlot()) : null };
  });
  const shown = [number(row[0]), number(row[1]), number(row[2]), age(row[3] === null ? null : Math.max(0, now - row[3])) || "\u2013"];
  cards.forEach(({ value, plot }, at) => {
    if (value.textContent !== shown[at]) value.textContent = shown[at];
    if (plot) draw(plot, history);
  });
}

async function showSettings() {
  const box = byId("settings"), asked = name;
  box.hidden = true;
  try {
    const { settings } = await (await ask("GET", path())).json();
    if (asked !== name || !settings || !Object.keys(settings).length) return;
    const rows = Object.entries(settings).flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, String(value))]);
    box.querySelector("dl").replaceChildren(...rows);
    box.hidden = false;
  } catch { /* the list of messages says what is wrong */ }
}

function clear() {
  messages = [];
  chosen = -1;
  byId("messages").replaceChildren();
  byId("message").hidden = true;
  byId("more").hidden = true;
  byId("note").textContent = "";
}

export async function look() {
  clear();
  await more();
  if (messages.length) choose(0);
}

export async function more() {
  const asked = name, last = messages.at(-1);
  const after = last ? `&after=${encodeURIComponent(last.id)}` : "";
  await tried(async () => {
    const found = await askLines(path(`/messages?peek&max=${PAGE}${after}`));
    if (asked !== name) return;
    byId("messages").append(...found.map((each, at) => line(each, messages.length + at)));
    messages.push(...found);
    byId("more").hidden = found.length === 0;
    byId("note").textContent = messages.length ? `${number(messages.length)} ready messages, oldest first` : "No message is ready.";
  });
}

function line(message, at) {
  const start = message.body ?? `base64: ${message.body_base64.slice(0, 120)}`;
  return element("li", { onclick: () => choose(at), id: `message-${at}` },
    element("div", { className: "start" }, ...text(start, 160)),
    element("div", { className: "line" },
      element("span", {}, message.content_type ?? ""),
      element("span", {}, message.damaged ? element("span", { className: "tag bad" }, "damaged") : null,
        message.receive_count ? ` received ${message.receive_count}\u00d7 ` : "",
        new Date(message.published_at).toLocaleString())));
}

export function move(by) {
  if (messages.length) choose(Math.min(messages.length - 1, Math.max(0, chosen + by)));
}

function choose(at) {
  byId("messages").querySelector(".chosen")?.classList.remove("chosen");
  chosen = at;
  const item = byId(`message-${at}`);
  item.classList.add("chosen");
  item.scrollIntoView({ block: "nearest" });
  show(messages[at]);
}

function dataOf(message) {
  if (message.body !== undefined) return new TextEncoder().encode(message.body);
  return Uint8Array.from(atob(message.body_base64), (letter) => letter.charCodeAt(0));
}

function indented(message) {
  try {
    return JSON.stringify(JSON.parse(message.body), null, 2);
  } catch {
    return null;
  }
}

function show(message) {
  const data = dataOf(message), json = message.body === undefined ? null : indented(message);
  const pre = element("pre", { tabIndex: 0 });
  const views = { text: message.body, JSON: json, hex: "" };
  const tabs = element("div", { className: "bar", role: "tablist" });
  const pick = (kind) => {
    pre.className = kind === "hex" ? "hex" : "";
    pre.replaceChildren(...(kind === "hex" ? [hex(data, SHOWN_HEX)] : text(views[kind], SHOWN_TEXT)));
    const limit = kind === "hex" ? SHOWN_HEX : SHOWN_TEXT;
    if (data.length > limit) pre.append(element("span", { className: "escaped" }, `\n\u2026 ${bytes(data.length)} in all`));
    for (const tab of tabs.children) tab.setAttribute("aria-selected", tab.textContent === kind);
  };
  for (const kind of Object.keys(views)) {
    if (views[kind] !== null && views[kind] !== undefined) {
      tabs.append(element("button", { type: "button", role: "tab", onclick: () => pick(kind) }, kind));
    }
  }
  const facts = {
    id: message.id, published: new Date(message.published_at).toLocaleString(), type: message.content_type ?? "\u2013",
    size: bytes(data.length), received: `${message.receive_count ?? 0} times`,
    ...(message.dead_from ? { dead: `in ${message.dead_from}: ${message.dead_reason}` } : {}),
    ...(message.damaged ? { damaged: "its body fails its checksum" } : {}),
  };
  const list = Object.entries(facts).flatMap(([key, value]) => [element("dt", {}, key), element("dd", { className: key === "id" ? "id" : "" }, ...text(value))]);
  const buttons = mayWrite
    ? element("div", { className: "bar" }, button("Move", () => moveOne(message)), button("Remove", () => remove(message), true)) : null;
  byId("message").replaceChildren(element("dl", {}, ...list), ...(buttons ? [buttons] : []), tabs, pre);
  byId("message").hidden = false;
  pick(json !== null ? "JSON" : message.body !== undefined ? "text" : "hex");
}

const button = (label, onclick, isDangerous = false) =>
  element("button", { type: "button", onclick, className: isDangerous ? "danger" : "" }, label);

function offerActions() {
  const moves = [button("Move all", moveAll), ...(isDead(name) ? [button("Redrive", redrive)] : [])];
  byId("actions").replaceChildren(...moves, button("Delete queue", removeQueue, true));
}

// Moves what `which` says from this queue; returns how many messages went, and how many stay.
async function moved(target, which, reason = "") {
  const query = new URLSearchParams({ from: name, ...which, ...(reason ? { reason } : {}) });
  const { moved: went, taken = [] } = await (await ask("POST", `/${encodeURIComponent(target)}/messages?${query}`)).json();
  return { went, stay: taken.length };
}

// As many requests as it takes for those that are ready now.
async function moveReady(target, reason = "") {
  await tried(async () => {
    let left = (await (await ask("GET", path())).json()).ready, all = 0, stay = 0, went = 1;
    while (left > 0 && went > 0) {
      ({ went, stay } = await moved(target, { max: Math.min(left, 1000) }, reason));
      all += went;
      left -= went;
    }
    toast(`Moved ${number(all)} messages to ${target}.${stay ? ` ${number(stay)} stay: ${target} has others of their ids.` : ""}`);
  });
  look();
}

async function moveOne(message) {
  const to = await destination("Move", `Message ${message.id}`, message.dead_from ?? (isDead(name) ? "" : deadOf(name)));
  if (to && await tried(() => moved(to.target, { id: message.id }, to.reason), `Moved to ${to.target}.`)) look();
}

async function moveAll() {
  const to = await destination("Move all", "All messages that are ready, oldest first.", isDead(name) ? aliveOf(name) : "");
  if (to) await moveReady(to.target, to.reason);
}

async function redrive() {
  const queue = aliveOf(name);
  if (await confirmed("Redrive", `All messages that are ready go back to ${queue}, and count as not received.`)) await moveReady(queue);
}

async function remove(message) {
  if (!await confirmed("Remove", `Message ${message.id} is removed for good.`)) return;
  if (await tried(() => ask("DELETE", path(`/messages/${encodeURIComponent(message.id)}`)), "Removed.")) look();
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
byId("more").onclick = more;
export const isDead = (queue) => queue.endsWith(DEAD);
export const deadOf = (queue) => queue + DEAD;
const aliveOf = (queue) => queue.slice(0, -DEAD.length);
