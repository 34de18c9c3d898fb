/** Stuck: groups with the same cause, the worst first; each item leads to its trace. */

import { draw, h, keyed, mark, nextStep, outside } from './dom.js';
import { address, traceOf } from './router.js';
import { CLASSES, age, levelOf, number, plural, sentence, wordOf } from './words.js';

/** Groups that are open at a time: an open one has up to 20 items. */
const OPEN = 6;
const GROUPS = 60;
const FILTERS = ['class', 'plane', 'project', 'cell', 'for'];

/** An item: its object, how long, attempts, and its words. */
export function stuckItem(item) {
  const { project, namespace, kind, name, cell, since, sinceAtLeast, attempts, nextTry, message } = item;
  const trace = traceOf(item);
  const isPlane = kind === 'planes' || !namespace;
  const title = isPlane ? outside(name || project) : [outside(`${namespace}/${name}`)];
  return h(
    'li',
    { class: 'item' },
    h(
      'div',
      { class: 'what' },
      trace && !isPlane ? h('a', { href: trace }, title) : h('span', { class: 'strong' }, title),
      !isPlane && h('span', { class: 'muted' }, outside(kind)),
    ),
    h(
      'div',
      { class: 'where' },
      project && h('a', { href: address('project', [project]) }, outside(project)),
      cell && cell.split(', ').map((one) => [' in ', h('a', { href: address('cell', [one]) }, outside(one))]),
    ),
    h(
      'div',
      { class: 'when' },
      age(since, { atLeast: sinceAtLeast }),
      attempts && h('span', { class: 'muted' }, `${number(attempts)} ${plural(attempts, 'attempt')}`),
      nextTry && h('span', { class: 'muted' }, age(nextTry, { prefix: 'next try ' })),
    ),
    message && h('p', { class: 'message' }, outside(message)),
  );
}

const keyOf = (group) => `${group.class}/${group.plane}/${group.word}`;
const itemKey = (item) => [item.project, item.namespace, item.kind, item.name].join('/');

/** Makes the view. */
export function stuckView(host, route, app) {
  let query = route.query;
  let groups = new Map();
  let remaining = 0;
  const opened = [];
  const chips = h('nav', { class: 'chips', 'aria-label': 'Classes' });
  const filters = h('div', { class: 'filters' });
  const list = h('ol', { class: 'groups' });
  const note = h('p', { class: 'empty' });
  host.append(chips, filters, list, note);

  const shows = (group) =>
    (!query.class || group.class === query.class) && (!query.plane || group.plane === query.plane);
  const link = (changes) => address('stuck', [], { ...query, ...changes });

  const drawChips = (overview) => {
    const counts = overview?.stuck ?? {};
    const items = Object.keys(CLASSES).map((name) => ({
      name,
      count: counts[name] ?? 0,
      isOpen: query.class === name,
    }));
    draw(chips, [items, query], () => [
      h('a', { href: link({ class: '' }), class: 'chip', 'aria-current': !query.class && 'true' }, 'all'),
      items
        .filter(({ name, count, isOpen }) => count > 0 || isOpen || name === 'unavailable')
        .map(({ name, count, isOpen }) =>
          h(
            'a',
            {
              href: link({ class: name }),
              class: 'chip',
              'aria-current': isOpen && 'true',
              title: CLASSES[name].means,
              'data-row': name,
            },
            mark(levelOf(name)),
            wordOf(name),
            count > 0 && h('b', {}, number(count)),
          ),
        ),
    ]);
  };
  const drawFilters = () => {
    const set = FILTERS.filter((name) => name !== 'class' && query[name]);
    draw(filters, [set, query], () =>
      set.map((name) =>
        h(
          'a',
          { class: 'chip', href: link({ [name]: '' }), 'aria-label': `Remove the filter ${name}` },
          `${name}: `,
          outside(query[name]),
          h('span', { 'aria-hidden': 'true' }, ' ✕'),
        ),
      ),
    );
  };
  const itemsOf = (group) =>
    h(
      'ol',
      { class: 'items' },
      group.items.map((item) => {
        const row = stuckItem(item);
        row.dataset.row = itemKey(item);
        return row;
      }),
      group.count > group.items.length &&
        h('li', { class: 'muted' }, `${number(group.count - group.items.length)} more; these are the oldest.`),
    );

  const renderGroup = (group) => {
    const key = keyOf(group);
    const details = h(
      'details',
      { open: opened.includes(key) },
      h(
        'summary',
        {},
        mark(levelOf(group.class)),
        h(
          'span',
          { class: 'title' },
          outside(sentence(group)),
          h('span', { class: 'muted' }, wordOf(group.class), ' · ', outside(group.plane)),
        ),
        h('span', { class: 'when' }, age(group.oldest, { prefix: 'oldest ' })),
      ),
      h('div', { class: 'body' }),
    );
    const fillBody = () =>
      details.lastElementChild.replaceChildren(
        ...(details.open ? [nextStep(group.next), itemsOf(group)].filter(Boolean) : []),
      );
    details.addEventListener('toggle', () => {
      if (details.open === opened.includes(key) && details.lastElementChild.hasChildNodes() === details.open) return;
      const at = opened.indexOf(key);
      if (at >= 0) opened.splice(at, 1);
      if (details.open) opened.push(key);
      fillBody();
      if (opened.length > OPEN) closeOldest();
    });
    fillBody();
    return h('li', { class: `group ${levelOf(group.class)}`, 'data-state': group.class }, details);
  };
  const closeOldest = () => {
    const row = [...list.children].find((one) => one.dataset.row === opened[0]);
    if (row) row.firstElementChild.open = false;
    else opened.shift();
  };
  const order = Object.keys(CLASSES);
  const drawGroups = () => {
    const rows = [...groups.values()]
      .filter(shows)
      .sort(
        (a, b) => order.indexOf(a.class) - order.indexOf(b.class) || (a.oldest ?? '~').localeCompare(b.oldest ?? '~'),
      );
    keyed(list, rows.slice(0, GROUPS), keyOf, renderGroup);
    const more = remaining + Math.max(0, rows.length - GROUPS);
    const none =
      query.class || query.project || query.cell
        ? 'Nothing is stuck here.'
        : 'Nothing is stuck. That is the normal state: each object is where it is to go, or on its way for less than a minute.';
    note.textContent =
      rows.length === 0 ? none : more > 0 ? `${number(more)} more groups; choose a class to see them.` : '';
    note.hidden = note.textContent === '';
  };
  const unfiltered = () => !query.project && !query.cell && !query.for && query.class !== 'unavailable';

  return {
    title: 'Stuck',
    topics: ['stuck'],
    overview: drawChips,
    change(next) {
      query = next.query;
      groups = new Map();
      drawChips(app.store.overview);
      drawFilters();
      return true;
    },
    async load() {
      const asked = query;
      const filter = Object.fromEntries(FILTERS.map((name) => [name, query[name]]));
      const answer = await app.get('stuck', { ...filter, limit: String(GROUPS) });
      if (asked !== query) return;
      groups = new Map(answer.groups.map((group) => [keyOf(group), group]));
      remaining = answer.remaining ?? 0;
      drawChips(app.store.overview);
      drawFilters();
      drawGroups();
    },
    delta(data) {
      if (!data.stuck) return;
      if (!unfiltered() || remaining > 0) {
        app.refresh();
        return;
      }
      for (const group of data.stuck.rows) groups.set(keyOf(group), group);
      for (const gone of data.stuck.gone) groups.delete(keyOf(gone));
      drawGroups();
    },
  };
}
