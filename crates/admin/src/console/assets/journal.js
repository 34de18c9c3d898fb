/** Journal: the writes with their reasons, newest first, live, filtered and pausable. */

import { badge, clean, draw, h, mark, outside, s } from './dom.js';
import { ROWS, paged } from './list.js';
import { address } from './router.js';
import { clock, now, number, plural } from './words.js';

const FILTERS = ['project', 'namespace', 'name', 'plane', 'result', 'reason'];
const CHOICES = { plane: ['hub', 'project', 'cell'], result: ['ok', 'failed'] };

/** `<resource>.<group> <namespace>/<name>` as its resource and its place. */
export function objectOf(object) {
  const [resource, place] = String(object).split(' ');
  return { kind: resource.split('.')[0], place: place ?? '' };
}

const time = (at) => h('span', { class: 'clock', title: at }, clock(Date.parse(at)));
const resultOf = (result) => (result === 'ok' ? badge('ok', 'ok') : badge('bad', result));

/** The place of an object: a hub namespace is shortened, its title is whole. */
const placeName = (place) => outside(place.replace(/^(ns-[0-9a-f]{4})[0-9a-f-]{8,}/, '$1…'), { title: clean(place) });

/** A write as a row of a short list. */
export function writeRow({ at, plane, project, object, verb, reason, result, message }) {
  const { kind, place } = objectOf(object);
  return h(
    'li',
    { 'data-state': result },
    time(at),
    mark(result === 'ok' ? 'ok' : 'bad'),
    h(
      'span',
      { class: 'what' },
      outside(verb, { class: 'strong' }),
      ' ',
      outside(kind),
      ' ',
      placeName(place),
      ' ',
      h('span', { class: 'muted' }, `on ${clean(plane)}`),
      project && [' ', h('a', { href: address('project', [project]) }, outside(project))],
    ),
    h(
      'span',
      { class: 'muted why' },
      outside(reason),
      result !== 'ok' && [', ', h('span', { class: 'bad' }, outside(result))],
      message && [': ', outside(message)],
    ),
  );
}

/** Seconds that the changes of Now cover. */
const WINDOW = 60;
/** Writes that Now lists. */
const WRITES = 6;

/** Bars of the writes in each of the last 60 s, failed ones on top. */
export function sparkline(seconds) {
  const most = Math.max(4, ...seconds.map(({ all }) => all));
  const bars = seconds.flatMap(({ all, failed }, at) => {
    if (all === 0) return [];
    const [height, top] = [Math.max(1.5, (all / most) * 40), (failed / most) * 40];
    return [
      s('rect', { class: 'write', x: at * 5, y: 42 - height, width: 4, height }),
      failed > 0 && s('rect', { class: 'failed', x: at * 5, y: 42 - height, width: 4, height: Math.max(2, top) }),
    ];
  });
  return s(
    'svg',
    { class: 'spark', viewBox: '0 0 300 42', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
    s('path', { class: 'base', d: 'M0 42H300' }),
    bars,
  );
}

/** The writes of the last 60 s: their numbers by second, and the newest ones. */
export class Changes {
  #seconds = new Map();
  #newest = [];

  /** Counts the writes that are newer than all before, newest first. */
  add(rows) {
    const [last] = this.#newest;
    const isNew = ({ at, seq }) => !last || at > last.at || (at === last.at && seq > last.seq);
    const added = rows.filter(isNew);
    for (const { at, result } of added) {
      const second = Math.floor(Date.parse(at) / 1000);
      const { all, failed } = this.#seconds.get(second) ?? { all: 0, failed: 0 };
      this.#seconds.set(second, { all: all + 1, failed: result === 'ok' ? failed : failed + 1 });
    }
    this.#newest = [...added.slice(0, WRITES), ...this.#newest].slice(0, WRITES);
  }

  /** The number of all and of failed writes in each second, the oldest first. */
  seconds() {
    const end = Math.floor(now() / 1000);
    for (const second of this.#seconds.keys()) if (second <= end - WINDOW) this.#seconds.delete(second);
    return Array.from({ length: WINDOW }, (_, at) => this.#seconds.get(end - WINDOW + 1 + at) ?? { all: 0, failed: 0 });
  }

  /** The newest writes of that time, newest first. */
  latest() {
    return this.#newest.filter(({ at }) => Date.parse(at) > now() - WINDOW * 1000);
  }
}

const COLUMNS = [
  { title: 'Time', kind: 'short', cell: ({ at }) => time(at) },
  { title: 'Plane', kind: 'short', cell: ({ plane }) => outside(plane) },
  { title: 'Verb', kind: 'short', cell: ({ verb }) => outside(verb) },
  {
    title: 'Object',
    kind: 'wide',
    cell: ({ object }) => [
      placeName(objectOf(object).place),
      ' ',
      h('span', { class: 'muted' }, outside(objectOf(object).kind)),
    ],
  },
  {
    title: 'Project',
    cell: ({ project }) => project && h('a', { href: address('project', [project]) }, outside(project)),
  },
  { title: 'Reason', kind: 'short', cell: ({ reason }) => outside(reason) },
  {
    title: 'Result',
    kind: 'wide',
    cell: ({ result, message }) => [resultOf(result), message && h('span', { class: 'message' }, outside(message))],
  },
  { title: 'Took', kind: 'figure', cell: ({ tookMs }) => `${number(tookMs)} ms` },
];

/** Makes the view. */
export function journalView(host, route, app) {
  let query = route.query;
  let [paused, missed] = [false, 0];
  const list = paged({
    caption: 'Writes, newest first',
    columns: COLUMNS,
    key: (row) => row.seq,
    empty: 'No write yet. A fleet at rest has none: fedgate writes only what has changed.',
    page: (token) => app.get('journal', { ...query, limit: String(ROWS), continue: token }),
    onError: app.reload,
  });
  const fields = h('form', { class: 'filters', 'aria-label': 'Filters' });
  const pause = h('button', { type: 'button', 'aria-pressed': 'false' }, 'Pause');
  const waiting = h('button', { type: 'button', class: 'primary', hidden: true });
  host.append(h('div', { class: 'tools' }, fields, h('div', { class: 'actions' }, waiting, pause)), list.element);

  const drawPause = () => {
    pause.textContent = paused ? 'Go on' : 'Pause';
    pause.setAttribute('aria-pressed', String(paused));
    waiting.hidden = missed === 0;
    waiting.textContent = `Show ${number(missed)} new ${plural(missed, 'write')}`;
  };
  const follow = () => {
    [paused, missed] = [false, 0];
    list.restart();
    drawPause();
    app.reload();
  };
  pause.addEventListener('click', () => {
    if (paused) return follow();
    paused = true;
    return drawPause();
  });
  waiting.addEventListener('click', follow);

  const submit = () => {
    const values = Object.fromEntries(new FormData(fields));
    location.hash = address('journal', [], values);
  };
  fields.addEventListener('submit', (event) => (event.preventDefault(), submit()));
  fields.addEventListener('change', submit);
  const field = (name) => {
    const value = query[name] ?? '';
    const own = CHOICES[name];
    const input = own
      ? h(
          'select',
          { name },
          h('option', { value: '' }, 'any'),
          [...new Set([...own, value].filter(Boolean))].map((choice) =>
            h('option', { value: choice, selected: choice === value }, clean(choice)),
          ),
        )
      : h('input', { name, value, maxlength: '253', spellcheck: 'false', autocomplete: 'off', placeholder: 'any' });
    return h('label', {}, h('span', {}, name), input);
  };
  const drawFields = () =>
    draw(fields, query, () => [FILTERS.map(field), h('button', { type: 'submit', class: 'hidden' }, 'Filter')]);
  drawFields();

  const matches = (row) => {
    const [namespace, name] = objectOf(row.object).place.split('/');
    const is = (wanted, had) => !wanted || wanted === had;
    return (
      is(query.project, row.project) &&
      is(query.plane, row.plane) &&
      is(query.reason, row.reason) &&
      is(query.name, name ?? namespace) &&
      (is(query.result, row.result) || (query.result === 'failed' && row.result !== 'ok'))
    );
  };

  return {
    title: 'Journal',
    topics: ['journal'],
    change(next) {
      query = next.query;
      list.restart();
      drawFields();
      return true;
    },
    load: () => (paused ? Promise.resolve() : list.load()),
    delta(data) {
      const rows = (data.journal ?? []).filter(matches);
      if (rows.length === 0) return;
      if (query.namespace && !paused) return void app.refresh();
      if (paused || !list.isFirstPage()) {
        missed += rows.length;
        drawPause();
      } else list.prepend(rows);
    },
  };
}
