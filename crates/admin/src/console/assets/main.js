/** The page: its views, its store, its keys, and what stands above every view. */

import { Refused, Stream, coalesced, get, signIn } from './api.js';
import { detailView } from './detail.js';
import { clean, draw, h, keyed, mark, nextStep, outside } from './dom.js';
import { journalView } from './journal.js';
import { mapView } from './map.js';
import { nowView } from './now.js';
import { address, parse } from './router.js';
import { closeFound, startSearch } from './search.js';
import { stuckView } from './stuck.js';
import { traceView } from './trace.js';
import { age, clock, levelOf, number, tick, LEVELS } from './words.js';

/** A view is made by `create(host, route, app)`. It has `title`, `topics` (of the stream), `load()` which reads its lists and
 * fails with `Refused`, and where it needs them `delta(data)`, `overview(overview)`, `change(route)` (true if it shows another
 * route of its own) and `close()`. */
const CREATE = {
  now: nowView,
  map: mapView,
  stuck: stuckView,
  trace: traceView,
  cell: detailView,
  project: detailView,
  journal: journalView,
};
const NAV = {
  now: 'Now',
  map: 'Map',
  stuck: 'Stuck',
  trace: 'Trace',
  cell: 'Cells',
  project: 'Projects',
  journal: 'Journal',
};
/** Least time between two readings that the stream asks for, in milliseconds. */
const RELOAD_PAUSE = 2000;
/** Least time between two readings of the replica, in milliseconds. */
const REPLICA_PAUSE = 10_000;
/** Least time between two messages of the live region, in milliseconds. */
const ANNOUNCE_PAUSE = 10_000;

const byId = (id) => document.getElementById(id);
const main = byId('main');

/** What every view shares: the last overview and replica, and the notices that depend on no view. */
const store = {
  overview: null,
  replica: null,
  complete: true,
  missing: [],
  connection: { state: 'opening', since: 0 },
  leaderWas: null,
  unknown: null,
};

const announce = announcer();
const app = {
  store,
  announce,
  /** As `get` of api.js; the answer's replica is taken over. */
  async get(segments, query, signal) {
    const answer = await get(segments, query, signal);
    adopt(answer);
    return answer;
  },
  /** As {@link get}; an empty list where the role of the process, a cell, does not serve it. */
  async getIfServed(segments, query, signal) {
    try {
      return await app.get(segments, query, signal);
    } catch (error) {
      if (error.code === 'NotFound') return { items: [] };
      throw error;
    }
  },
  /** Reads the open view's lists anew, at once. */
  reload: coalesced(() => load(), 0),
  /** Reads them anew because of the stream, with a pause between two readings. */
  refresh: coalesced(() => load(), RELOAD_PAUSE),
};

let current = null;
/** When the overview was last read and not streamed. */
let replicaRead = -REPLICA_PAUSE;

const stream = new Stream({
  hello(data, wasLost) {
    adopt(data);
    if (wasLost) {
      announce('The connection is back.');
      replicaRead = -REPLICA_PAUSE;
      app.reload();
    }
  },
  delta(data) {
    if (data.overview) {
      setOverview(data.overview);
      readOverview();
    }
    current?.view.delta?.(data);
  },
  reset(topics) {
    if (topics.includes('overview')) replicaRead = -REPLICA_PAUSE;
    app.refresh();
  },
  connection: showConnection,
});

function announcer() {
  let [last, pending, timer] = [-ANNOUNCE_PAUSE, '', 0];
  const show = () => {
    timer = 0;
    last = performance.now();
    byId('live').textContent = pending;
  };
  return (text) => {
    pending = clean(text);
    timer ||= setTimeout(show, Math.max(0, last + ANNOUNCE_PAUSE - performance.now()));
  };
}

function adopt({ replica, complete, missing }) {
  if (!replica) return;
  const before = store.replica?.leader;
  if (before && replica.leader && before !== replica.leader) {
    store.leaderWas = before;
    announce(`The leader is now ${replica.leader}.`);
  }
  store.replica = replica;
  if (complete !== undefined) {
    store.complete = complete;
    store.missing = missing ?? [];
  }
  drawNotices();
  drawAbout();
}

function setOverview(overview) {
  const state = overview.health?.state;
  if (store.overview && store.overview.health?.state !== state)
    announce(`The fleet is ${state === 'ok' ? 'well' : state}.`);
  store.overview = overview;
  drawNav();
  current?.view.overview?.(overview);
}

/** Reads the overview with its replica, unless that was done a short time ago: the stream has the overview alone. */
async function readOverview() {
  if (performance.now() - replicaRead < REPLICA_PAUSE) return;
  replicaRead = performance.now();
  try {
    setOverview(await app.get('overview'));
  } catch (error) {
    replicaRead = -REPLICA_PAUSE;
    report(error);
  }
}

function drawNav() {
  const stuck = store.overview?.stuck ?? {};
  const count = Object.entries(stuck).reduce((sum, [name, of]) => (name === 'unavailable' ? sum : sum + of), 0);
  const worst = LEVELS.find((level) => Object.keys(stuck).some((name) => stuck[name] && levelOf(name) === level));
  const items = Object.entries(NAV).map(([view, label]) => ({
    view,
    label,
    isOpen: current?.route.view === view,
    count: view === 'stuck' && count > 0 ? count : 0,
    worst,
  }));
  draw(byId('views'), items, () =>
    items.map(({ view, label, isOpen, count: of, worst: level }) =>
      h(
        'a',
        { href: address(view), 'aria-current': isOpen && 'page' },
        label,
        of > 0 && h('span', { class: `count ${level}` }, mark(level), number(of)),
      ),
    ),
  );
}

function drawNotices() {
  const { replica, complete, missing, leaderWas, unknown } = store;
  const notices = [];
  if (replica?.role === 'standby') {
    const leader = replica.leader
      ? ['The leader is ', outside(replica.leader, { class: 'strong' }), '.']
      : ['No leader is known.'];
    notices.push({
      key: 'standby',
      level: 'note',
      sign: replica.leader,
      words: [
        'This replica is a standby: it watches and does not write, and knows no failures of reconciles. ',
        ...leader,
      ],
    });
  }
  if (leaderWas) {
    const words = [
      'The leader changed from ',
      outside(leaderWas),
      ' to ',
      outside(replica?.leader, { class: 'strong' }),
      '.',
    ];
    notices.push({
      key: 'leader',
      level: 'note',
      sign: [leaderWas, replica?.leader],
      words,
      close: () => (store.leaderWas = null),
    });
  }
  if (!complete) {
    const names = missing.length > 0 ? `: ${missing.map(clean).join(', ')}` : '';
    notices.push({
      key: 'incomplete',
      level: 'note',
      sign: missing,
      words: [`First lists are being read, figures may be too low${names}.`],
    });
  }
  if (unknown) {
    notices.push({
      key: 'unknown',
      level: 'warn',
      sign: unknown,
      words: ['There is no view ', outside(unknown, { class: 'strong' }), '. This is Now.'],
      close: () => (store.unknown = null),
    });
  }
  const items = notices.map(({ key, level, sign }) => ({ key, level, sign }));
  keyed(
    byId('notices'),
    items,
    (item) => item.key,
    (item) => {
      const { words, close } = notices.find((notice) => notice.key === item.key);
      const dismiss = () => (close(), drawNotices());
      return h(
        'p',
        { class: `notice ${item.level}` },
        mark(item.level),
        h('span', {}, words),
        close &&
          h(
            'button',
            { type: 'button', class: 'quiet', 'aria-label': 'Close this notice', on: { click: dismiss } },
            'Close',
          ),
      );
    },
  );
}

function drawAbout() {
  const { replica } = store;
  draw(byId('about'), replica, () => [
    h('span', {}, 'replica ', outside(replica.identity)),
    h('span', { 'data-state': replica.role }, replica.role),
    h('span', {}, 'version ', outside(replica.version), ' ', h('span', { class: 'muted' }, outside(replica.revision))),
    h('span', {}, age(replica.startedAt, { prefix: 'up ' })),
    h('span', { class: 'muted' }, 'Read-only: nothing here changes the fleet.'),
  ]);
}

const CONNECTION = {
  opening: ['none', 'connecting'],
  live: ['ok', 'live'],
  reconnecting: ['warn', 'reconnecting'],
  stale: ['dead', 'stale since'],
};

function showConnection(connection) {
  store.connection = connection;
  const { state, since } = connection;
  document.body.dataset.connection = state;
  document.body.toggleAttribute('data-stale', state === 'stale');
  const [level, word] = CONNECTION[state];
  const text = state === 'stale' ? `${word} ${clock(since)}` : word;
  draw(byId('connection'), text, () => [mark(level), h('span', { 'data-state': state }, text)]);
  if (state === 'stale') announce(`The figures are ${text}.`);
}

/** Shows why the view's lists could not be read, or nothing. */
function report(error) {
  const old = byId('problem');
  if (!error) return old?.remove();
  if (error.name === 'AbortError') return undefined;
  if (!(error instanceof Refused)) throw error;
  if (error.wantsToken) return askForToken();
  const isAlone = error.code === 'NotFound' && !current.isRead;
  const panel = h(
    'div',
    { id: 'problem', class: isAlone ? 'problem alone' : 'problem', role: 'alert' },
    h('p', {}, mark('dead'), outside(error.message)),
    nextStep(error.next),
  );
  return old ? old.replaceWith(panel) : main.querySelector('h1').after(panel);
}

async function load() {
  const opened = current;
  const isOpen = () => current === opened;
  try {
    await Promise.all([readOverview(), opened.view.load()]);
    opened.isRead = true;
    if (isOpen()) report(null);
  } catch (error) {
    if (isOpen()) report(error);
    if (['Busy', 'Unavailable'].includes(error.code)) app.refresh();
  }
  if (isOpen()) main.removeAttribute('aria-busy');
}

async function open() {
  const route = parse(location.hash);
  if (route.unknown !== undefined) {
    store.unknown = route.unknown;
    drawNotices();
    announce(`There is no view ${route.unknown}. This is Now.`);
  }
  closeFound();
  const isFirst = !current;
  if (current?.route.view === route.view && current.view.change?.(route)) {
    Object.assign(current, { route });
    document.title = `${current.view.title} · fedgate`;
    return app.reload();
  }
  current?.view.close?.();
  const heading = h('h1', { tabindex: '-1' });
  const host = h('div', { class: `view ${route.view}` }, heading);
  main.replaceChildren(host);
  main.setAttribute('aria-busy', 'true');
  main.dataset.view = route.view;
  const view = CREATE[route.view](host, route, app);
  current = { route, view };
  heading.replaceChildren(...[view.heading ?? view.title].flat());
  document.title = `${clean(view.title)} · fedgate`;
  drawNav();
  if (store.overview) view.overview?.(store.overview);
  if (!isFirst) {
    scrollTo(0, 0);
    heading.focus({ preventScroll: true });
  }
  await stream.show(view.topics);
  if (current.view === view) await load();
}

function askForToken() {
  const dialog = byId('signin');
  if (dialog.open) return;
  const input = h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true, spellcheck: 'false' });
  const answer = h('p', { class: 'answer', role: 'alert' });
  const submit = async (event) => {
    event.preventDefault();
    const token = input.value.trim();
    input.value = '';
    try {
      await signIn(token);
    } catch (error) {
      answer.textContent = `${clean(error.message)} ${error.next ? `Next: ${clean(error.next)}` : ''}`;
      return input.focus();
    }
    dialog.close();
    dialog.replaceChildren();
    replicaRead = -REPLICA_PAUSE;
    await stream.again();
    return app.reload();
  };
  dialog.replaceChildren(
    h('h2', { id: 'signin-title' }, 'Sign in'),
    h(
      'p',
      { class: 'muted' },
      'This gateway asks for the token of its operators. The page keeps it nowhere: this tab gets a session of twelve hours.',
    ),
    h(
      'form',
      { on: { submit } },
      h('label', { for: 'token' }, 'Token'),
      input,
      h('button', { type: 'submit', class: 'primary' }, 'Open the console'),
      answer,
    ),
    h('p', { class: 'muted' }, 'Without a token: ', h('code', {}, 'fedgate console')),
  );
  dialog.onkeydown = (event) => {
    if (event.key === 'Escape') event.preventDefault();
  };
  dialog.showModal();
  input.focus();
}

const KEYS = [
  ['/', 'search projects, cells, or project namespace/name'],
  ['1 … 7', `open ${Object.values(NAV).join(', ')}`],
  ['← ↑ ↓ →', 'walk the bands of the map and the hops of a trace'],
  ['Enter', 'open what has the focus'],
  ['t', 'map and trace as a table, and back'],
  ['Esc', 'close'],
  ['?', 'this list'],
];

function showKeys() {
  const dialog = byId('keys');
  const close = () => dialog.close();
  dialog.replaceChildren(
    h('h2', { id: 'keys-title' }, 'Keys'),
    h(
      'dl',
      {},
      KEYS.map(([key, words]) => h('div', {}, h('dt', {}, h('kbd', {}, key)), h('dd', {}, words))),
    ),
    h('button', { type: 'button', class: 'primary', on: { click: close } }, 'Close'),
  );
  dialog.showModal();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target.closest?.('input, select, textarea')) return;
  if (event.key === '/') {
    event.preventDefault();
    byId('search').focus();
  } else if (event.key === '?') showKeys();
  else if (event.key === 't') document.querySelector('[data-toggle="table"]')?.click();
  else if (/^[1-7]$/.test(event.key)) location.hash = address(Object.keys(NAV)[event.key - 1]);
}

function startScheme() {
  const choice = byId('scheme');
  const show = (scheme) => (document.documentElement.dataset.scheme = scheme);
  choice.value = ['light', 'dark'].includes(localStorage.getItem('scheme')) ? localStorage.getItem('scheme') : 'auto';
  show(choice.value);
  choice.addEventListener('change', () => {
    localStorage.setItem('scheme', choice.value);
    show(choice.value);
  });
}

/** Uses up the code that `fedgate console` has put into the address; then opens the view. */
async function enter() {
  const code = location.hash.match(/^#code=(\w+)$/)?.[1];
  if (code) {
    history.replaceState(null, '', location.pathname);
    // Without a session the view says how to get one.
    await signIn(code).catch(() => {});
  }
  return open();
}

function start() {
  startScheme();
  startSearch(app, report);
  showConnection(store.connection);
  byId('help').addEventListener('click', showKeys);
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener('hashchange', enter);
  addEventListener('keydown', onKey);
  setInterval(() => tick(document.body), 1000);
  enter();
}

start();
