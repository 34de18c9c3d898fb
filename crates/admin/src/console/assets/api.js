/** The operations API: requests, and the one event stream of the page with the state of the connection. */

import { now, setAsOf, setClock } from './words.js';

/** A request that was not answered: `code`, `message` and `next` as the API has them. */
export class Refused extends Error {
  constructor(code, message, next) {
    super(message);
    this.code = code;
    this.next = next;
  }

  /** True if a token is asked for. */
  get wantsToken() {
    return this.code === 'SignIn';
  }
}

async function refusal(response) {
  const answer = await response.json().catch(() => ({}));
  const wantsToken = response.status === 401 && /bearer/i.test(response.headers.get('WWW-Authenticate') ?? '');
  return new Refused(
    wantsToken ? 'SignIn' : (answer.code ?? String(response.status)),
    answer.message ?? `The gateway answers ${response.status}.`,
    answer.next ?? 'see the log of the gateway',
  );
}

/** Where the tab keeps its session. It belongs to this port of the host, whereas a cookie is sent to every port. */
const SESSION = 'session';

/** Sends a request with the session, if there is one. */
function ask(path, options = {}) {
  const session = sessionStorage.getItem(SESSION);
  const headers = session ? { ...options.headers, Authorization: `Session ${session}` } : options.headers;
  return fetch(path, { cache: 'no-store', ...options, headers });
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The answer for a path below `/api/v1/`. Segments are encoded; empty parameters are left out. A busy gateway is asked
 * again after a second, twice. @throws {Refused} */
export async function get(segments, query = {}, signal) {
  const path = [segments].flat().map(encodeURIComponent).join('/');
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  for (let attempt = 0; ; attempt += 1) {
    let response;
    try {
      response = await ask(`/api/v1/${path}${search ? `?${search}` : ''}`, { signal });
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new Refused('Unreachable', 'The gateway does not answer.', 'it is asked again when its stream is back');
    }
    if (response.status === 429 && attempt < 2) {
      await wait(1000);
      continue;
    }
    if (!response.ok) throw await refusal(response);
    const answer = await response.json();
    setAsOf(answer.asOf);
    return answer;
  }
}

/** Begins a session with a token or a code, which is kept nowhere. @throws {Refused} */
export async function signIn(token) {
  let response;
  try {
    response = await fetch('/console/session', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  } catch {
    throw new Refused(
      'Unreachable',
      'The gateway does not answer, or the token has characters that no token has.',
      'try again',
    );
  }
  if (!response.ok) throw await refusal(response);
  if (response.status === 200) sessionStorage.setItem(SESSION, (await response.json()).session);
}

/** A function that calls `act` at most once in `pause` milliseconds and once at a time. A call in between is made up for
 * afterwards; `act` itself does not fail. */
export function coalesced(act, pause) {
  let [runs, wanted, next, timer] = [false, false, 0, 0];
  const go = async () => {
    timer = 0;
    runs = true;
    wanted = false;
    next = performance.now() + pause;
    await act();
    runs = false;
    if (wanted) call();
  };
  const call = () => {
    wanted = true;
    if (!runs && !timer) timer = setTimeout(go, Math.max(0, next - performance.now()));
  };
  return call;
}

/** How long a lost stream is `reconnecting` before the figures are stale, in milliseconds. */
const STALE_AFTER = 20_000;
/** How long a view waits for the first event before it reads its lists without it, in milliseconds. */
const HELLO_WITHIN = 1000;
const RETRY = [1000, 2000, 5000];

/** The events of a stream as `{id, event, data}`, until it ends or is lost. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const parts = (text + value).split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split('\n').map((line) => line.split(/: (.*)/)));
      // A comment has none.
      if (fields.data) yield fields;
    }
  }
}

/** @typedef {{state: 'opening'|'live'|'reconnecting'|'stale', since: number}} Connection `since` in milliseconds. */

/** A stream. `on.delta`, `on.reset`, `on.hello` and `on.connection` are called with its events. */
export class Stream {
  #on;
  #reading = null;
  #last = '';
  #topics = '';
  #state = 'opening';
  #lost = 0;
  #retries = 0;
  #timers = { retry: 0, stale: 0 };

  constructor(on) {
    this.#on = on;
  }

  /** Shows these topics from now on. Resolves when the lists may be read: after the first event, or when there is none in
   * time. The same topics keep the open stream. */
  show(topics) {
    const wanted = [...new Set(['overview', ...topics])].sort().join(',');
    if (wanted === this.#topics && this.#reading) return Promise.resolve();
    this.#topics = wanted;
    return this.again();
  }

  /** Opens the stream anew, e.g. after a token was given. */
  again() {
    this.#last = '';
    return this.#open();
  }

  /** Resolves with the first event, when there is none in time, or when there is no stream. */
  #open() {
    clearTimeout(this.#timers.retry);
    this.#reading?.abort();
    const reading = new AbortController();
    this.#reading = reading;
    return new Promise((resolve) => {
      setTimeout(resolve, HELLO_WITHIN);
      this.#read(reading.signal, resolve).finally(() => {
        resolve();
        if (reading === this.#reading) this.#fail();
      });
    });
  }

  async #read(signal, done) {
    const headers = this.#last ? { 'Last-Event-ID': this.#last } : {};
    const response = await ask(`/api/v1/events?topics=${this.#topics}`, { signal, headers }).catch(() => null);
    if (!response?.ok) return;
    for await (const { id, event, data } of events(response.body)) {
      if (signal.aborted) return;
      this.#last = id;
      const value = JSON.parse(data);
      if (event === 'reset') {
        this.#on.reset(value.topics);
        continue;
      }
      setAsOf(value.asOf);
      if (event === 'delta') this.#on.delta(value);
      if (event === 'hello') {
        const wasLost = this.#state === 'reconnecting' || this.#state === 'stale';
        this.#alive();
        done();
        this.#on.hello(value, wasLost);
      }
    }
  }

  #alive() {
    this.#retries = 0;
    clearTimeout(this.#timers.stale);
    setClock(true);
    this.#set('live');
  }

  #fail() {
    if (this.#state === 'live' || this.#state === 'opening') {
      this.#lost = now();
      this.#set('reconnecting');
      this.#timers.stale = setTimeout(() => {
        setClock(false);
        this.#set('stale');
      }, STALE_AFTER);
    }
    const pause = RETRY[Math.min(this.#retries, RETRY.length - 1)];
    this.#retries += 1;
    this.#timers.retry = setTimeout(() => this.#open(), pause);
  }

  #set(state) {
    this.#state = state;
    this.#on.connection({ state, since: this.#lost });
  }
}
