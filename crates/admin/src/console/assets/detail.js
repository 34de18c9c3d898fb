/** Cells and Projects: their lists, and one of them with what is stuck there. */

import { badge, draw, h, keyed, mark, nextStep, outside } from './dom.js';
import { writeRow } from './journal.js';
import { ROWS, paged, table } from './list.js';
import { address } from './router.js';
import { stuckItem } from './stuck.js';
import { age, isOlder, levelOf, number, severity, stateOf, wordOf, worse, worstOf } from './words.js';

const WRITES = 20;
const SORTS = { worst: 'worst first', name: 'by name', since: 'longest first', instances: 'most Instances first' };

const state = (name) => badge(stateOf(name).level, stateOf(name).word, name);
const share = (ready, all) =>
  h('span', { class: ready < all ? 'gens differs' : 'gens' }, `${number(ready)} of ${number(all)}`);
const fact = (term, ...of) => h('div', {}, h('dt', {}, term), h('dd', {}, of));

const PROJECTS = [
  { title: 'Project', cell: ({ project }) => h('a', { href: address('project', [project]) }, outside(project)) },
  { title: 'Plane', kind: 'short', cell: (row) => state(row.state) },
  { title: 'Worst', kind: 'wide', cell: ({ worst }) => worst && [mark(levelOf(worst.class)), ' ', worstOf(worst)] },
  { title: 'Ready', kind: 'figure', cell: ({ instances }) => share(instances.ready, instances.desired) },
  { title: 'Deployments', kind: 'figure', cell: ({ deployments }) => number(deployments) },
  { title: 'Undelivered', kind: 'figure', cell: ({ undelivered }) => number(undelivered) },
  { title: 'Stuck', kind: 'figure', cell: ({ stuck }) => number(stuck) },
  { title: 'Cities', cell: ({ cities }) => outside(cities.join(' ')) },
];

const CELLS = [
  { title: 'Cell', cell: ({ cell }) => h('a', { href: address('cell', [cell]) }, outside(cell)) },
  { title: 'City', kind: 'short', cell: ({ city }) => outside(city ?? '–') },
  { title: 'State', kind: 'short', cell: (row) => state(row.state) },
  {
    title: 'Reason',
    cell: ({ state: of, reason, since }) =>
      of !== 'ready' && [outside(reason ?? ''), ' ', h('span', { class: 'muted' }, age(since))],
  },
  { title: 'Ready', kind: 'figure', cell: ({ instances }) => share(instances.ready, instances.existing) },
  { title: 'Deployments', kind: 'figure', cell: ({ deployments }) => number(deployments) },
  { title: 'Not applied', kind: 'figure', cell: ({ notApplied }) => number(notApplied) },
  { title: 'Projects', kind: 'figure', cell: ({ projects }) => number(projects) },
  { title: 'Last report', kind: 'short', cell: ({ lastReport }) => age(lastReport, { suffix: ' ago' }) },
  { title: 'Kubernetes', kind: 'short', cell: ({ kubernetes }) => outside(kubernetes ?? '') },
];

const LISTS = {
  project: {
    title: 'Projects',
    topic: 'projects',
    columns: PROJECTS,
    states: ['unauthorized', 'backoff', 'syncing', 'connected'],
    empty: 'No project is engaged here. fedgate projects add engages one.',
  },
  cell: {
    title: 'Cells',
    topic: 'cells',
    columns: CELLS,
    states: ['not_ready', 'leaving', 'draining', 'unlabelled', 'ready'],
    empty: 'No cell has joined here. fedgate cells join adds one.',
  },
};

function listView(host, route, app) {
  const { view } = route;
  const { title, topic, columns, states, empty } = LISTS[view];
  let query = route.query;
  const key = (row) => row[view];
  const list = paged({
    caption: title,
    columns,
    key,
    empty,
    onError: app.reload,
    page: (token) => app.get(topic, { sort: 'worst', ...query, limit: String(ROWS), continue: token }),
  });
  const form = h('form', { class: 'filters', 'aria-label': 'Filters' });
  host.append(form, list.element);
  const submit = () => {
    location.hash = address(view, [], Object.fromEntries(new FormData(form)));
  };
  form.addEventListener('submit', (event) => (event.preventDefault(), submit()));
  form.addEventListener('change', submit);
  const choice = (name, options) =>
    h(
      'label',
      {},
      h('span', {}, name),
      h(
        'select',
        { name },
        Object.entries(options).map(([value, word]) =>
          h('option', { value, selected: (query[name] ?? '') === value }, word),
        ),
      ),
    );
  const text = (name, label) =>
    h(
      'label',
      {},
      h('span', {}, label),
      h('input', {
        name,
        value: query[name],
        maxlength: '64',
        placeholder: 'any',
        spellcheck: 'false',
        autocomplete: 'off',
      }),
    );
  const drawForm = () =>
    draw(form, query, () => [
      choice('state', { '': 'any', ...Object.fromEntries(states.map((name) => [name, stateOf(name).word])) }),
      text('city', 'city'),
      view === 'project' && text('q', 'part of the name'),
      view === 'project' && text('reason', 'reason'),
      choice('sort', { '': SORTS.worst, ...Object.fromEntries(Object.entries(SORTS).slice(1)) }),
      h('button', { type: 'submit', class: 'hidden' }, 'Filter'),
    ]);
  drawForm();
  return {
    title,
    topics: [topic],
    change(next) {
      if (next.path.length > 0) return false;
      query = next.query;
      list.restart();
      drawForm();
      return true;
    },
    load: list.load,
    delta(data) {
      if (data[topic]) list.merge(data[topic].rows, data[topic].gone);
    },
  };
}

/** Bands that are asked for, and projects that are drawn; the rest is `others`. */
const TOP = 200;
const DRAWN_PROJECTS = 40;
/** Projects that are asked for by name because they hurt, however few Instances they have. */
const HURTING = 12;
/** Cells that are drawn, and bands of a project that is asked for by name. */
const DRAWN_CELLS = 100;
const BANDS = 20;
/** Project or cell of a sum. */
export const REST = '*';

/** Flows, with the bands of all but the largest and worst projects and the largest cells summed up. */
export function fold(items) {
  const projects = new Map();
  for (const { project, instances, worst } of items) {
    if (project === REST) continue;
    const known = projects.get(project) ?? { project, instances: 0, worst: null };
    projects.set(project, { project, instances: known.instances + instances, worst: worse(known.worst, worst) });
  }
  const all = [...projects.values()];
  const bySize = [...all].sort((a, b) => b.instances - a.instances);
  const hurting = all
    .filter((one) => one.worst)
    .sort((a, b) => severity(a.worst) - severity(b.worst))
    .slice(0, DRAWN_PROJECTS / 2);
  const kept = new Set([...new Set([...hurting, ...bySize].map((one) => one.project))].slice(0, DRAWN_PROJECTS));
  const sizes = new Map();
  for (const { cell, instances } of items) sizes.set(cell, (sizes.get(cell) ?? 0) + instances);
  const cells = new Set(
    [...sizes]
      .sort((a, b) => b[1] - a[1])
      .slice(0, DRAWN_CELLS)
      .map(([cell]) => cell),
  );
  const bands = new Map();
  for (const flow of items) {
    const project = kept.has(flow.project) ? flow.project : REST;
    const cell = cells.has(flow.cell) ? flow.cell : REST;
    const key = JSON.stringify([project, flow.city, cell]);
    const known = bands.get(key);
    bands.set(
      key,
      known
        ? {
            ...known,
            instances: known.instances + flow.instances,
            ready: known.ready + flow.ready,
            worst: worse(known.worst, flow.worst),
            projects: (known.projects ?? 1) + (flow.projects ?? 1),
          }
        : { ...flow, project, cell },
    );
  }
  return { flows: [...bands.values()], named: kept.size };
}

/** The flows of the fleet, and for the worst projects whose bands are too thin to be among them, theirs. With all that hurt
 * taken out of the sums, the sums are well. */
export async function readFlows(app, filter) {
  const { items } = await app.get('flows', { ...filter, top: String(TOP) });
  if (Object.values(filter).some(Boolean) || !items.some((flow) => flow.project === REST && flow.worst)) return items;
  const named = new Set(items.map((flow) => flow.project));
  const worst = (await app.get('projects', { sort: 'worst', limit: String(HURTING + 1) })).items.filter(
    (row) => row.worst,
  );
  const found = [];
  for (const { project } of worst.slice(0, HURTING).filter((row) => !named.has(row.project))) {
    found.push(
      ...(await app.get('flows', { project, top: String(TOP) })).items
        .filter((flow) => flow.project === project)
        .slice(0, BANDS),
    );
  }
  const sums = items.map((flow) => {
    if (flow.project !== REST) return flow;
    const taken = found.filter((one) => one.city === flow.city && one.cell === flow.cell);
    const less = (field) => taken.reduce((rest, one) => Math.max(0, rest - one[field]), flow[field]);
    return {
      ...flow,
      projects: flow.projects - taken.length,
      instances: less('instances'),
      ready: less('ready'),
      worst: worst.length <= HURTING ? null : flow.worst,
    };
  });
  return [...sums, ...found];
}

const FLOWS = [
  {
    title: 'Project',
    cell: ({ project, projects }) =>
      project === REST
        ? `${number(projects)} others`
        : h('a', { href: address('project', [project]) }, outside(project)),
  },
  { title: 'City', kind: 'short', cell: ({ city }) => outside(city) },
  {
    title: 'Cell',
    cell: ({ cell }) =>
      cell && cell !== REST
        ? h('a', { href: address('cell', [cell]) }, outside(cell))
        : h('span', { class: 'muted' }, cell ? 'others' : 'none named'),
  },
  { title: 'Instances', kind: 'figure', cell: ({ instances }) => number(instances) },
  { title: 'Ready', kind: 'figure', cell: ({ ready, instances }) => share(ready, instances) },
  {
    title: 'Worst',
    kind: 'wide',
    cell: ({ worst }) => worst && [mark(levelOf(worst.class)), ` ${wordOf(worst.class)}: `, worstOf(worst)],
  },
];

/** A table of flows: project, city, cell, and Instances. */
export const flowTable = (caption, empty) =>
  table({ caption, columns: FLOWS, key: ({ project, city, cell }) => `${project}/${city}/${cell}`, empty });

function planeFacts(plane) {
  if (!plane) return [];
  const { credentialEnds, lastEvent, downSince, engagedSince, watches, missingRights = [], error, next } = plane;
  const failing = watches.filter((watch) => watch.error || watch.forbidden);
  return [
    h(
      'dl',
      { class: 'facts' },
      fact('engaged for', age(engagedSince)),
      downSince && fact('down for', age(downSince)),
      fact('last event', age(lastEvent, { suffix: ' ago', otherwise: 'none yet' })),
      fact(
        'credential',
        credentialEnds
          ? isOlder(credentialEnds, 0)
            ? badge('dead', 'expired')
            : age(credentialEnds, { prefix: 'ends ' })
          : 'end unknown',
      ),
      fact(
        'watches',
        failing.length > 0
          ? badge('dead', `${number(failing.length)} of ${number(watches.length)} fail`)
          : badge('ok', `${number(watches.length)} run`),
      ),
      missingRights.length > 0 &&
        fact(
          'missing rights',
          missingRights.map((right) => h('div', {}, badge('dead', right))),
        ),
    ),
    error && h('p', { class: 'message' }, outside(error)),
    nextStep(next),
  ];
}

function projectFacts(row, plane) {
  const { state: of, worst, instances, deployments, cities, undelivered, namespaces } = row;
  return [
    h(
      'p',
      { class: 'sentence small' },
      state(of),
      worst &&
        h(
          'span',
          { class: `badge ${levelOf(worst.class)}` },
          mark(levelOf(worst.class)),
          `${wordOf(worst.class)}: `,
          worstOf(worst),
        ),
    ),
    h(
      'dl',
      { class: 'facts' },
      fact('Instances ready', share(instances.ready, instances.desired)),
      fact('existing', number(instances.existing)),
      fact('up to date', number(instances.updated)),
      fact('deployments', number(deployments)),
      fact('undelivered', number(undelivered)),
      fact('cities', outside(cities.join(' ') || '–')),
    ),
    planeFacts(plane),
    namespaces.length > 0 &&
      h(
        'details',
        { class: 'more' },
        h('summary', {}, `${number(namespaces.length)} namespaces on the hub`),
        h(
          'ul',
          {},
          namespaces
            .slice(0, ROWS)
            .map(({ namespace, hubNamespace }) =>
              h('li', {}, outside(namespace), ' is ', h('code', {}, outside(hubNamespace))),
            ),
          namespaces.length > ROWS && h('li', { class: 'muted' }, `and ${number(namespaces.length - ROWS)} more`),
        ),
      ),
  ];
}

function cellFacts(row) {
  const {
    state: of,
    reason,
    since,
    city,
    kubernetes,
    serves,
    projects,
    deployments,
    instances,
    notApplied,
    lastReport,
  } = row;
  return [
    h(
      'p',
      { class: 'sentence small' },
      state(of),
      since && of !== 'ready' && h('span', { class: 'since' }, outside(reason ?? ''), ' ', age(since, { prefix: 'for ' })),
    ),
    of === 'not_ready' &&
      nextStep(
        'see why the Cluster is not ready: kubectl describe cluster on the hub, then the cell’s own API server and agent',
      ),
    h(
      'dl',
      { class: 'facts' },
      fact('city', outside(city ?? 'none')),
      fact('Instances ready', share(instances.ready, instances.existing)),
      fact('deployments', number(deployments)),
      fact('not applied', number(notApplied)),
      fact('projects', number(projects)),
      fact('last report', age(lastReport, { suffix: ' ago', otherwise: 'none since the start' })),
      fact('Kubernetes', outside(kubernetes ?? 'unknown')),
      fact('serves', outside(serves.join(', ') || 'nothing yet')),
      of === 'ready' && fact('ready for', age(since)),
      fact('credential', h('span', { class: 'muted' }, 'held by Karmada')),
    ),
  ];
}

function oneView(host, route, app) {
  const {
    view,
    path: [name],
  } = route;
  const topic = LISTS[view].topic;
  const facts = h('div', { class: 'detail' });
  const flows = flowTable('Where the Instances are', 'No cell has written back an Instance.');
  const stuck = h('ol', { class: 'items' });
  const noneStuck = h('p', { class: 'empty', hidden: true }, 'Nothing is stuck here.');
  const writes = h('ol', { class: 'writes' });
  const panel = (title, ...children) => h('section', { class: 'panel' }, h('h2', {}, title), children);
  host.append(
    facts,
    panel(h('a', { href: address('stuck', [], { [view]: name }) }, 'Stuck'), stuck, noneStuck),
    panel(h('a', { href: address('map', [], { [view]: name }) }, 'Where the Instances are'), flows.element),
    view === 'project'
      ? panel(h('a', { href: address('journal', [], { project: name }) }, 'Latest writes'), writes)
      : panel('Latest writes of its projects', writes),
  );
  return {
    title: `${view === 'cell' ? 'Cell' : 'Project'} ${name}`,
    heading: [h('span', { class: 'muted' }, view === 'cell' ? 'Cell ' : 'Project '), outside(name)],
    topics: [topic, 'journal'],
    change: () => false,
    async load() {
      const [row, flow, planes, journal] = await Promise.all([
        app.get([topic, name]),
        app.get('flows', { [view]: name, top: '200' }),
        view === 'project' && name.length <= 64
          ? app.get('planes', { plane: 'project', q: name, limit: '500' })
          : { items: [] },
        app.get('journal', {
          project: view === 'project' ? name : '',
          limit: view === 'project' ? String(WRITES) : '500',
        }),
      ]);
      const plane = planes.items.find((one) => one.plane === name);
      draw(
        facts,
        [row, plane].map((of) => of && { ...of, asOf: null }),
        () => (view === 'cell' ? cellFacts(row) : projectFacts(row, plane)),
      );
      keyed(
        stuck,
        row.stuckObjects.slice(0, ROWS),
        (item) => [item.project, item.namespace, item.kind, item.name, item.message].join('/'),
        stuckItem,
      );
      noneStuck.hidden = row.stuckObjects.length > 0;
      flows.show(flow.items);
      const here = new Set(row.projectNames ?? [name]);
      const shown = journal.items.filter((write) => here.has(write.project)).slice(0, WRITES);
      draw(writes, shown, () =>
        shown.length > 0 ? shown.map(writeRow) : h('li', { class: 'empty' }, 'No write is in the journal.'),
      );
    },
    delta(data) {
      const rows = data[topic];
      const isOurs = rows && (rows.rows.some((row) => row[view] === name) || rows.gone.includes(name));
      if (isOurs || (view === 'project' && data.journal?.some((row) => row.project === name))) app.refresh();
    },
  };
}

/** Makes the view of a cell or a project, or the list of all. */
export const detailView = (host, route, app) => (route.path.length > 0 ? oneView : listView)(host, route, app);
