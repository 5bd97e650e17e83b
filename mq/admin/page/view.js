// How things look. Nothing that came from a message or a name is ever taken for markup.

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const GROUPED = new Intl.NumberFormat("en-US");
export const number = (value) => GROUPED.format(value);

export const counted = (value, word) => `${number(value)} ${word}${value === 1 ? "" : "s"}`;

export function rate(value) {
  return value >= 100 || Number.isInteger(value) ? number(Math.round(value)) : value.toFixed(1);
}

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return "now";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) {
      const whole = seconds / size;
      return `${whole < 10 ? whole.toFixed(1) : Math.floor(whole)} ${unit}`;
    }
  }
  return `${Math.floor(seconds)} s`;
}

export function bytes(length) {
  if (length < 1024) return `${length} B`;
  return length < 1 << 20 ? `${(length / 1024).toFixed(1)} KiB` : `${(length / (1 << 20)).toFixed(1)} MiB`;
}

const SVG = "http://www.w3.org/2000/svg";

const FEWEST_PLACES = 30;

// A curve of `values`, the newest to the right, drawn into `svg`.
export function draw(svg, values) {
  if (!svg.firstChild) {
    svg.setAttribute("viewBox", "0 0 100 24");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    for (const kind of ["area", "curve"]) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", kind);
      svg.append(path);
    }
  }
  const most = Math.max(1, ...values);
  const step = 100 / (Math.max(FEWEST_PLACES, values.length) - 1);
  const points = values.map((value, at) => {
    const x = 100 - (values.length - 1 - at) * step;
    return `${x.toFixed(1)} ${(22.5 - (21 * value) / most).toFixed(1)}`;
  });
  const [area, curve] = svg.children;
  const path = points.length > 1 ? `M${points.join("L")}` : "";
  const begin = points.length > 1 ? points[0].split(" ")[0] : "";
  area.setAttribute("d", path && `${path}L100 24L${begin} 24Z`);
  curve.setAttribute("d", path);
}

export const newPlot = () => document.createElementNS(SVG, "svg");

// What a terminal or a browser would act on, or what would turn the order of letters around, is
// shown by its number.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

export function text(value, limit = Infinity) {
  const shown = value.length > limit ? value.slice(0, limit) : value;
  const parts = [];
  let at = 0;
  for (const match of shown.matchAll(ODD)) {
    parts.push(shown.slice(at, match.index));
    const code = match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.push(element("span", { className: "escaped" }, `\u27e8U+${code}\u27e9`));
    at = match.index + match[0].length;
  }
  parts.push(shown.slice(at));
  return parts;
}

export function hex(data, limit) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, limit); at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, limit))];
    const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// A time of the server's: today's without the date, unless it is wanted in full.
export function when(time, isFull = false) {
  const at = new Date(time);
  return isFull || at.toDateString() !== new Date().toDateString() ? at.toLocaleString() : at.toLocaleTimeString();
}

export const button = (label, onclick, isDangerous = false) =>
  element("button", { type: "button", onclick, className: isDangerous ? "danger" : "" }, label);

// Say it where a screen reader listens, which reads aloud whatever is written there, changed or not.
export function tell(box, message) {
  if (box.textContent !== message) box.textContent = message;
}

// Whether `work` succeeds; what fails is told.
export async function tried(work, done = "") {
  try {
    await work();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast(error.message);
    return false;
  }
}

export function toast(message) {
  const box = byId("toast");
  box.replaceChildren(...text(message, 500));
  box.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { box.hidden = true; }, 6000);
}

// The two questions. Enter is for what was asked, Cancel and Escape for nothing.
const QUESTIONS = ["confirm", "move"].map(byId);
for (const dialog of QUESTIONS) dialog.querySelector(".cancel").onclick = () => dialog.close("");

// What was asked about a queue is no longer asked when it is left.
export const endQuestion = () => QUESTIONS.forEach((dialog) => dialog.close(""));

// Ask where messages go, and why; resolves to { target, reason }, or null.
export function destination(title, what, target) {
  const dialog = byId("move");
  byId("move-title").textContent = title;
  byId("move-text").textContent = what;
  byId("move-target").value = target;
  byId("move-reason").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes"
      ? { target: byId("move-target").value.trim(), reason: byId("move-reason").value.trim() } : null);
  });
}

// Ask before something that cannot be undone; with `name` only after that name was typed.
export function confirmed(title, what, name = "") {
  const dialog = byId("confirm"), typed = byId("confirm-typed"), yes = byId("confirm-yes");
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = what;
  byId("confirm-name").textContent = name;
  byId("confirm-label").hidden = !name;
  yes.textContent = title;
  typed.value = "";
  yes.disabled = Boolean(name);
  typed.oninput = () => { yes.disabled = typed.value !== name; };
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => resolve(dialog.returnValue === "yes");
  });
}
