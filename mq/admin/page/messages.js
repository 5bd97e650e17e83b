// The messages of one queue in one state, and the one that is looked at.

import { ask, askLines } from "./server.js";
import { age, bytes, button, byId, confirmed, counted, destination, element, hex, number, text, tried, when } from "./view.js";

const PAGE = 50;
const SHOWN_TEXT = 200_000;
const SHOWN_HEX = 65_536;
const NONE = { ready: "No message is ready.", leased: "No message is leased.", delayed: "No message is delayed." };
const DEAD = ".dead";
const NARROW = matchMedia("(max-width: 760px)"); // as in page.css: the message is below the list

let name = "";
let state = "ready";
let mayWrite = false;
let messages = [];
let chosen = -1;
let looks = 0;

export const isDead = (queue) => queue.endsWith(DEAD);
export const deadOf = (queue) => queue + DEAD;
export const aliveOf = (queue) => queue.slice(0, -DEAD.length);
export const pathOf = (queue, rest = "") => `/${encodeURIComponent(queue)}${rest}`;

// What is shown from now on.
export function show(queue, ofState, canWrite) {
  [name, state, mayWrite] = [queue, ofState, canWrite];
  return look();
}

export function clear() {
  looks += 1;
  messages = [];
  chosen = -1;
  byId("messages").replaceChildren();
  byId("messages").removeAttribute("aria-activedescendant");
  byId("message").hidden = true;
  byId("more").hidden = true;
  byId("note").textContent = "";
}

// From the beginning; the message that was chosen stays so if it is there. A keyboard that was at a
// message goes on in the list.
export async function look() {
  const before = messages[chosen]?.id, wasAtMessage = byId("message").contains(document.activeElement);
  clear();
  await more();
  const at = messages.findIndex(({ id }) => id === before);
  if (messages.length) choose(Math.max(0, at));
  if (wasAtMessage) byId(messages.length ? "messages" : "again").focus();
}

const after = (last, most) => askLines(pathOf(name,
  `/messages?peek&max=${most}&state=${state}${last ? `&after=${encodeURIComponent(last.id)}` : ""}`));

export async function more() {
  const asked = looks, last = messages.at(-1);
  if (!last) byId("note").textContent = "Looking\u2026";
  const done = await tried(async () => {
    const found = await after(last, PAGE);
    if (asked !== looks || last !== messages.at(-1)) return;
    byId("messages").append(...found.map((each, at) => lineOf(each, messages.length + at)));
    messages.push(...found);
    offerMore(found.length);
    byId("note").textContent = messages.length ? `${counted(messages.length, `${state} message`)} shown, oldest first` : NONE[state];
  });
  if (!done && asked === looks) byId("note").textContent = "";
}

// A page that is not full is the last one, unless its bodies were too large for more of them.
async function offerMore(found) {
  const asked = looks, last = messages.at(-1);
  byId("more").hidden = found < PAGE;
  if (found === 0 || found === PAGE) return;
  const isThereMore = (await after(last, 1).catch(() => [])).length > 0;
  if (asked === looks && last === messages.at(-1)) byId("more").hidden = !isThereMore;
}

const due = (message) => {
  const seconds = (new Date(message.visible_at) - Date.now()) / 1000;
  return seconds < 1 ? "due now" : `ready in ${age(seconds)}`;
};

function lineOf(message, at) {
  const start = message.body ?? `base64: ${message.body_base64.slice(0, 120)}`;
  return element("li", { onclick: () => tap(at), id: `message-${at}`, role: "option" },
    element("div", { className: "start" }, ...text(start, 160)),
    element("div", { className: "line" },
      element("span", { className: "kind" }, ...text(message.content_type ?? "", 60)),
      element("span", {}, message.damaged ? element("span", { className: "tag bad" }, "damaged") : null,
        message.receive_count ? ` received ${message.receive_count}\u00d7 \u00b7 ` : "",
        message.visible_at ? due(message) : when(message.published_at))));
}

export function move(by) {
  if (messages.length) choose(Math.min(messages.length - 1, Math.max(0, chosen + by)));
}

function tap(at) {
  choose(at);
  if (NARROW.matches) byId("message").scrollIntoView({ block: "nearest" });
}

function choose(at) {
  const lines = byId("messages"), before = lines.querySelector(".chosen"), item = byId(`message-${at}`);
  before?.classList.remove("chosen");
  before?.removeAttribute("aria-selected");
  chosen = at;
  item.classList.add("chosen");
  item.setAttribute("aria-selected", "true");
  lines.setAttribute("aria-activedescendant", item.id);
  item.scrollIntoView({ block: "nearest" });
  showMessage(messages[at]);
}

function dataOf(message) {
  if (message.body !== undefined) return new TextEncoder().encode(message.body);
  return Uint8Array.from(atob(message.body_base64), (letter) => letter.charCodeAt(0));
}

const TOKEN = /["{}[\],:]|[^\s{}[\],:"]+/g;
const IN_STRING = /\\.|"/g;
const isOpening = (token) => token === "{" || token === "[";
const isClosing = (token) => token === "}" || token === "]";

// The tokens of JSON. A string is gone through piece by piece: one expression for all of it would need
// a stack as deep as the string has escapes.
function* tokensOf(json) {
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(json);
    if (!found) return;
    at = TOKEN.lastIndex;
    if (found[0] === '"') {
      IN_STRING.lastIndex = at;
      while (IN_STRING.exec(json)[0] !== '"');
      at = IN_STRING.lastIndex;
    }
    yield json.slice(found.index, at);
  }
}

// The body with a line for each member, and nothing else changed: a number keeps all its digits.
// Null if it is not JSON.
function indented(message) {
  try {
    JSON.parse(message.body);
  } catch {
    return null;
  }
  let lines = "", depth = 0, before = "";
  for (const token of tokensOf(message.body)) {
    if (isClosing(token)) depth -= 1;
    if (before === "," || isOpening(before) !== isClosing(token)) lines += `\n${"  ".repeat(depth)}`;
    else if (before === ":") lines += " ";
    lines += token;
    if (lines.length > SHOWN_TEXT) break;
    if (isOpening(token)) depth += 1;
    before = token;
  }
  return lines;
}

const listOf = (facts, className = "") => element("dl", { className },
  ...facts.flatMap(([key, value]) => [element("dt", {}, ...text(key)), element("dd", { className: key === "id" ? "id" : "" }, ...text(String(value), 2000))]));

function factsOf(message, data) {
  return [
    ["id", message.id],
    ["published", when(message.published_at, true)],
    ...(message.visible_at ? [[message.state === "leased" ? "leased" : "delayed", `until ${when(message.visible_at, true)}, ${due(message)}`]] : []),
    ["type", message.content_type ?? "\u2013"],
    ["size", bytes(data.length)],
    ["received", ["never", "once"][message.receive_count ?? 0] ?? `${number(message.receive_count)} times`],
    ...(message.dead_from ? [["dead", `in ${message.dead_from}: ${message.dead_reason}`]] : []),
    ...(message.damaged ? [["damaged", "its body fails its checksum"]] : []),
  ];
}

function showMessage(message) {
  const data = dataOf(message), json = message.body === undefined ? null : indented(message);
  const pre = element("pre", { tabIndex: 0, "aria-label": "Body" });
  const views = { text: message.body, JSON: json, hex: "" };
  const tabs = element("div", { className: "tabs", role: "tablist", "aria-label": "How the body is shown" });
  const pick = (kind) => {
    pre.className = kind === "hex" ? "hex" : "";
    pre.replaceChildren(...(kind === "hex" ? [hex(data, SHOWN_HEX)] : text(views[kind], SHOWN_TEXT)));
    const isCut = kind === "hex" ? data.length > SHOWN_HEX : views[kind].length > SHOWN_TEXT;
    if (isCut) pre.append(element("span", { className: "escaped" }, `\n\u2026 ${bytes(data.length)} in all`));
    for (const tab of tabs.children) tab.setAttribute("aria-selected", tab.textContent === kind);
  };
  for (const kind of Object.keys(views)) {
    if (views[kind] !== null && views[kind] !== undefined) {
      tabs.append(element("button", { type: "button", role: "tab", onclick: () => pick(kind) }, kind));
    }
  }
  const properties = Object.entries(message.properties ?? {});
  byId("message").replaceChildren(
    listOf(factsOf(message, data)),
    ...(properties.length ? [element("h2", {}, "Properties"), listOf(properties, "properties")] : []),
    element("div", { className: "bar" }, tabs, ...(mayWrite ? [actionsFor(message)] : [])), pre);
  byId("message").hidden = false;
  pick(json !== null ? "JSON" : message.body !== undefined ? "text" : "hex");
}

// What may be done with it

// The queue is the one that the message was found in.
function actionsFor(message) {
  const queue = name, release = message.state === "leased" ? "Release" : "Make ready";
  return element("span", { className: "actions" },
    ...(message.state === "ready" ? [] : [button(release, () => giveBack(queue, message, release))]),
    button("Move", () => moveOne(queue, message)), button("Remove", () => remove(queue, message), true));
}

async function giveBack(queue, message, title) {
  const what = message.state === "leased"
    ? "The lease ends now. Another worker may get the message while the one that has it is still at work."
    : "The delay ends now.";
  if (!await confirmed(title, what)) return;
  const target = pathOf(queue, `/messages?id=${encodeURIComponent(message.id)}&visibility=0`);
  if (await tried(() => ask("GET", target), "It is ready.")) look();
}

async function moveOne(queue, message) {
  const to = await destination("Move", `Message ${message.id}`, message.dead_from ?? (isDead(queue) ? "" : deadOf(queue)));
  if (to && await tried(() => moved(queue, to.target, { id: message.id }, to.reason), `Moved to ${to.target}.`)) look();
}

async function remove(queue, message) {
  if (!await confirmed("Remove", `Message ${message.id} is removed for good.`)) return;
  if (await tried(() => ask("DELETE", pathOf(queue, `/messages/${encodeURIComponent(message.id)}`)), "Removed.")) look();
}

// Moves what `which` says from a queue; returns how many messages went, and how many stay.
export async function moved(queue, target, which, reason = "") {
  const query = new URLSearchParams({ from: queue, ...which, ...(reason ? { reason } : {}) });
  const { moved: went, taken = [] } = await (await ask("POST", pathOf(target, `/messages?${query}`))).json();
  return { went, stay: taken.length };
}

byId("more").onclick = more;
byId("again").onclick = look;
