// A client of MQ for Node.js 18 or newer. Copy this file; it needs nothing else.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

// Why the server refused; `type` is one of those in docs/protocol.md.
export class Problem extends Error {
  constructor({ type, title, status, detail }) {
    super(`${status} ${detail ?? title} (${type})`)
    Object.assign(this, { type, status, detail })
  }
}

// A message under a lease. `body` is a Buffer; `text()` and `json()` read it. fetch() has decoded it if it was published with Content-Encoding.
export class Message {
  constructor(headers, body) {
    this.id = headers.get('x-message-id')
    this.lease = headers.get('etag')
    this.contentType = headers.get('content-type')
    this.receiveCount = Number(headers.get('x-receive-count'))
    this.publishedAt = headers.get('x-published-at')
    this.properties = Object.fromEntries([...headers].filter(([name]) => /^(x-meta-|ce-|trace(parent|state)$|baggage$|content-language$)/.test(name)))
    this.body = body
  }

  text() {
    return this.body.toString()
  }

  json() {
    return JSON.parse(this.text())
  }
}

// One queue of a server, as new Queue('http://127.0.0.1:8080', 'orders').
export class Queue {
  constructor(server, name, token = '') {
    this.url = `${server}/${name}`
    this.headers = token ? { authorization: `Bearer ${token}` } : {}
  }

  // Makes the queue, or leaves it as it is.
  async create() {
    await this.#ask('PUT', '')
  }

  // Resolves to the id once the message is on stable media. The id is chosen here, so trying again
  // makes no second message. `properties` are headers that stay with it, as { 'x-meta-shop': 'north' }.
  async publish(body, { contentType = 'application/octet-stream', id = randomUUID(), properties = {}, delay } = {}) {
    const query = delay === undefined ? '' : `?delay=${delay}`
    const headers = { ...properties, 'x-message-id': id, 'content-type': contentType }
    await this.#ask('POST', `/messages${query}`, { headers, body })
    return id
  }

  // Waits up to 60 seconds for a message; null if none came. `signal` ends the wait.
  async receive({ wait = 20, visibility = 30, signal } = {}) {
    const answer = await this.#ask('GET', `/messages?wait=${wait}&visibility=${visibility}`, { signal })
    return answer.status === 204 ? null : new Message(answer.headers, answer.body)
  }

  // Acknowledges a message. A Problem with status 412 says that another receiver has it.
  async remove(message) {
    await this.#ask('DELETE', `/messages/${message.id}`, { headers: { 'if-match': message.lease } })
  }

  // Lets the lease end in this many seconds from now; 0 gives the message back at once.
  async extend(message, visibility, signal) {
    const headers = { 'if-match': message.lease }
    await this.#ask('GET', `/messages?id=${message.id}&visibility=${visibility}`, { headers, signal })
  }

  // Handles one message after the other until `signal` is aborted. A message is removed when `handle`
  // ends well, and comes again a second later when it throws. The signal that `handle` is given says
  // that the lease could not be renewed: another receiver may have the message then.
  async work(handle, { visibility = 30, signal } = {}) {
    while (!signal?.aborted) {
      const message = await this.receive({ visibility, signal }).catch((error) => {
        if (!signal?.aborted) throw error
      })
      if (message) await this.#handle(message, handle, visibility)
    }
  }

  async #handle(message, handle, visibility) {
    const lost = new AbortController()
    let renewing // one at a time: one that arrived after the work has failed would undo the second
    const left = () => AbortSignal.timeout(Math.floor(visibility * 666)) // of the lease: a renewal that hangs ends with it
    const renew = () => this.extend(message, visibility, left()).catch((error) => lost.abort(error))
    const timer = setInterval(() => (renewing ??= renew().finally(() => (renewing = undefined))), visibility * 333)
    let failure
    try {
      await handle(message, lost.signal)
    } catch (error) {
      failure = error
      console.error(`message ${message.id} comes again:`, error)
    }
    clearInterval(timer)
    await renewing
    try {
      await (failure ? this.extend(message, 1) : this.remove(message))
    } catch (error) {
      // A lease that was lost is no error: the message is somewhere else.
      if (![404, 412].includes(error.status)) throw error
    }
  }

  // Tries again for some seconds when no answer comes, the server answers 503, or a proxy 502 or 504. What answers 200 and is not MQ is an error.
  async #ask(method, path, { headers = {}, body, signal } = {}) {
    let failure
    for (let pause = 100, after = 0; pause < 5000; pause *= 2, after = 0) {
      const limit = limited(signal, 90_000) // a long poll takes up to 60
      try {
        const answer = await fetch(this.url + path, { method, headers: { ...this.headers, ...headers }, body, signal: limit.signal })
        const read = Buffer.from(await answer.arrayBuffer())
        const has = (name) => answer.headers.has(name)
        const isWhole = answer.status === 204 || has('content-length') || has('transfer-encoding') // or it may have broken off
        const isOurs = isWhole && (answer.status !== 200 || method === 'PUT' || has('x-message-id'))
        if (answer.status < 400 && isOurs) return { status: answer.status, headers: answer.headers, body: read }
        failure = new Problem({ status: answer.status, ...parsed(read) })
        after = Number(answer.headers.get('retry-after')) || 0
        if (![502, 503, 504].includes(answer.status) || after > 60) break
      } catch (error) {
        failure = error
      } finally {
        limit.end()
      }
      await sleep(pause + 1000 * after, null, { signal }).catch(() => {})
      if (signal?.aborted) break
    }
    throw failure
  }
}

function parsed(bytes) {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return { title: 'what answered is not MQ' }
  }
}

// A signal that is aborted with `signal`, or after that time, until end() is called.
function limited(signal, milliseconds) {
  const one = new AbortController()
  const stop = () => one.abort(signal.reason)
  const timer = setTimeout(() => one.abort(new Error('no answer came in time')), milliseconds)
  if (signal?.aborted) stop()
  signal?.addEventListener('abort', stop)
  return { signal: one.signal, end: () => (clearTimeout(timer), signal?.removeEventListener('abort', stop)) }
}
