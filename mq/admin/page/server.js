// Requests to the server, the token they carry, and the events it sends.

const TOKEN = "mq-token";
const FORBIDDEN = "urn:mq:problem:forbidden";
const RETRY_MS = 2000;
const SILENT_MS = 5000; // an event comes each second
const GIVE_UP_MS = 60_000;

export class Problem extends Error {
  constructor(text, type) {
    super(text);
    this.type = type;
  }
}

const dialog = document.getElementById("token");
const field = document.getElementById("token-text");
let asked = null;

// One question for all requests that were refused; resolves when the person has answered.
function askForToken(why) {
  asked ??= new Promise((resolve) => {
    document.getElementById("token-wrong").textContent = why;
    field.value = "";
    dialog.showModal();
    dialog.onclose = () => {
      // No header could carry another one.
      if (field.value && field.validity.valid) sessionStorage.setItem(TOKEN, field.value.trim());
      asked = null;
      resolve();
    };
  });
  return asked;
}

async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...options.headers };
    if (token) headers.Authorization = `Bearer ${token}`;
    const response = await fetch(path, { ...options, headers, cache: "no-store" });
    if (response.status !== 401) return response;
    // Another request may have been given a token meanwhile.
    if (sessionStorage.getItem(TOKEN) === token) await askForToken(token ? "The server does not know this token." : "");
  }
}

async function checked(response) {
  if (response.ok) return response;
  let said = {};
  try {
    said = await response.json();
  } catch { /* not one of ours */ }
  throw new Problem(said.detail ?? `${response.status} ${response.statusText}`, said.type);
}

// A request to the API, as on the main port. Throws Problem, or TypeError without a connection.
export async function ask(method, path, options = {}) {
  return checked(await send(`api${path}`, { method, ...options }));
}

export async function askLines(path) {
  const text = await (await ask("GET", path)).text();
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
}

// The next piece of the stream. Without one the server may be stopped, its disk may hang, or it may
// be unreachable though nobody closed the connection: what is shown is no longer true then.
async function next(reader, state) {
  const silent = setTimeout(() => state("silent"), SILENT_MS);
  const over = setTimeout(() => reader.cancel(), GIVE_UP_MS);
  try {
    return await reader.read();
  } finally {
    clearTimeout(silent);
    clearTimeout(over);
  }
}

// Calls `heard(kind, data)` for each event and `state(word)` for "live", "silent" and "lost", for
// ever. EventSource cannot send a token, so the stream is read here.
export async function listen(heard, state) {
  for (;;) {
    try {
      const response = await checked(await send("events"));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await next(reader, state);
        if (done) break;
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const [first, second] = part.split("\n");
          heard(first.slice("event: ".length), JSON.parse(second.slice("data: ".length)));
        }
        state("live");
      }
      state("lost");
    } catch (error) {
      state("lost", error instanceof Problem ? error.message : "");
      // What this token does not show, another one may.
      if (error.type === FORBIDDEN) await askForToken(`${error.message}.`);
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}
