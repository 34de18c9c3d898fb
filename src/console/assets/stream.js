/** The one event stream of the page, and the state of the connection. */

import { now, setAsOf, setClock } from './words.js';

/** How long a lost stream is `reconnecting` before the figures are stale, in milliseconds. */
const STALE_AFTER = 20_000;
/** How long a view waits for the first event before it reads its lists without it, in milliseconds. */
const HELLO_WITHIN = 1000;
const RETRY = [1000, 2000, 5000];

/** @typedef {{state: 'opening'|'live'|'reconnecting'|'stale', since: number}} Connection `since` in milliseconds. */

/** A stream. `on.delta`, `on.reset`, `on.hello` and `on.connection` are called with its events. */
export class Stream {
  #on;
  #source = null;
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
    if (wanted === this.#topics && this.#source) return Promise.resolve();
    this.#topics = wanted;
    return this.#open();
  }

  /** Opens the stream again, e.g. after a token was given. */
  again() {
    return this.#open();
  }

  #open() {
    clearTimeout(this.#timers.retry);
    this.#source?.close();
    const source = new EventSource(`/api/v1/events?topics=${this.#topics}`);
    this.#source = source;
    return new Promise((resolve) => {
      const late = setTimeout(resolve, HELLO_WITHIN);
      const done = () => (clearTimeout(late), resolve());
      const listen = (name, act) =>
        source.addEventListener(name, (event) => {
          if (source === this.#source) act(JSON.parse(event.data));
        });
      listen('hello', (data) => {
        setAsOf(data.asOf);
        const wasLost = this.#state === 'reconnecting' || this.#state === 'stale';
        this.#alive();
        done();
        this.#on.hello(data, wasLost);
      });
      listen('delta', (data) => {
        setAsOf(data.asOf);
        this.#on.delta(data);
      });
      listen('reset', (data) => this.#on.reset(data.topics));
      source.addEventListener('error', () => {
        if (source !== this.#source) return;
        done();
        this.#fail(source.readyState === EventSource.CLOSED);
      });
    });
  }

  #alive() {
    this.#retries = 0;
    clearTimeout(this.#timers.stale);
    setClock(true);
    this.#set('live');
  }

  #fail(ended) {
    if (this.#state === 'live' || this.#state === 'opening') {
      this.#lost = now();
      this.#set('reconnecting');
      this.#timers.stale = setTimeout(() => {
        setClock(false);
        this.#set('stale');
      }, STALE_AFTER);
    }
    if (!ended) return;
    const pause = RETRY[Math.min(this.#retries, RETRY.length - 1)];
    this.#retries += 1;
    this.#timers.retry = setTimeout(() => this.#open(), pause);
  }

  #set(state) {
    this.#state = state;
    this.#on.connection({ state, since: this.#lost });
  }
}
