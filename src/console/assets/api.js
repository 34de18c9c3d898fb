/** Requests to the operations API. */

import { setAsOf } from './words.js';

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

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The answer for a path below `/api/v1/`. Segments are encoded; empty parameters are left out. A busy gateway is asked
 * again after a second, twice. @throws {Refused} */
export async function get(segments, query = {}, signal) {
  const path = [segments].flat().map(encodeURIComponent).join('/');
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  for (let attempt = 0; ; attempt += 1) {
    let response;
    try {
      response = await fetch(`/api/v1/${path}${search ? `?${search}` : ''}`, { signal, cache: 'no-store' });
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

/** Opens a session with a token, which is kept nowhere. @throws {Refused} */
export async function signIn(token) {
  let response;
  try {
    response = await fetch('/console/session', { method: 'POST', headers: { Authorization: `Bearer ${token}` } });
  } catch {
    throw new Refused('Unreachable', 'The gateway does not answer, or the token has characters that no token has.', 'try again');
  }
  if (!response.ok) throw await refusal(response);
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
