/** Trace: the way of one object, a row per placement and city, a node per hop, wanted and present generation side by side. */

import { badge, clean, draw, h, mark, nextStep, outside } from './dom.js';
import { writeRow } from './journal.js';
import { table } from './list.js';
import { address, traceOf } from './router.js';
import { HOPS, age, now, number } from './words.js';

/** Branches of a page. */
const BRANCHES = 15;
/** Age at which a waiting hop is broken, in milliseconds. */
const BROKEN_AFTER = 120_000;
/** Hops that are open at a time. */
const OPEN = 8;
const WORDS = {
  project: 'project',
  write: 'write',
  hub: 'hub',
  binding: 'binding',
  cell: 'cell',
  instances: 'Instances',
  projection: 'projection',
};
const MEANS = {
  project: 'the deployment in the project',
  write: 'its last failed write',
  hub: 'the copy on the hub',
  binding: 'Karmada’s binding',
  cell: 'the cell’s report',
  instances: 'the Instances that the cell wrote back',
  projection: 'the project’s Instances',
};
const VERDICTS = {
  whole: ['ok', 'Whole: every hop is ok'],
  moving: ['warn', 'Moving: it is on its way'],
  broken: ['dead', 'Broken'],
};
const COUNTED = new Set(['instances', 'projection']);

const isKnown = (value) => value !== undefined && value !== null;

/** Wanted and present, e.g. `gen 4`, `wants 4, has 3`, `2 of 4`. */
function figures({ hop, wants, has }) {
  if (!isKnown(wants)) return null;
  if (COUNTED.has(hop))
    return h('span', { class: has === wants ? 'gens' : 'gens differs' }, `${number(has ?? 0)} of ${number(wants)}`);
  if (has === wants) return h('span', { class: 'gens' }, `gen ${number(wants)}`);
  return h(
    'span',
    { class: 'gens differs' },
    h('b', {}, isKnown(has) ? `gen ${number(has)}` : 'none'),
    ` wants ${number(wants)}`,
  );
}

const rank = { broken: 0, waiting: 1, unseen: 2, ok: 3 };
const worst = (branch) => Math.min(3, ...branch.hops.map(({ state }) => rank[state] ?? 2));
const keyOf = (branch, hop) => `${branch.placement ?? ''}/${branch.city}/${hop.hop}`;
const placeOf = ({ placement, city }) => (placement ? `${placement}/${city}` : city);

function firstBrokenKey({ firstBroken }) {
  return firstBroken ? `${firstBroken.placement ?? ''}/${firstBroken.city}/${firstBroken.hop}` : null;
}

/** Milliseconds until the first waiting hop is broken by its age alone, which no event tells; `null` if none is. */
function breaksIn({ branches }) {
  const waits = branches.flatMap(({ hops }) => hops).filter(({ state, since }) => state === 'waiting' && since);
  const due = waits.map(({ since }) => Date.parse(since) + BROKEN_AFTER - now() + 1000).filter((left) => left > 0);
  return due.length > 0 ? Math.min(...due) : null;
}

function details(branch, hop, next) {
  const { level, word } = HOPS[hop.state];
  const fact = (term, ...of) => h('div', {}, h('dt', {}, term), h('dd', {}, of));
  const cell = hop.hop === 'cell' && hop.object && !hop.object.includes(', ');
  return h(
    'div',
    { class: `hop-details ${level}` },
    h(
      'p',
      { class: 'strong' },
      mark(level),
      ` ${placeOf(branch)}: ${WORDS[hop.hop]} ${word}`,
      h('span', { class: 'muted' }, ` ${MEANS[hop.hop]}`),
    ),
    (hop.word || hop.detail) &&
      h(
        'p',
        { class: 'words' },
        hop.word && outside(hop.word, { class: 'strong' }),
        hop.word && hop.detail && ': ',
        outside(hop.detail),
      ),
    h(
      'dl',
      { class: 'facts' },
      isKnown(hop.wants) && fact('wants', number(hop.wants)),
      isKnown(hop.wants) && fact('has', isKnown(hop.has) ? number(hop.has) : 'none'),
      hop.since && fact('for', age(hop.since)),
      hop.object &&
        fact(
          'object',
          cell ? h('a', { href: address('cell', [hop.object]) }, outside(hop.object)) : outside(hop.object),
        ),
      fact('plane', outside(hop.plane)),
      fact('proven by', outside(hop.source === 'inferred' ? 'a later hop' : hop.source)),
    ),
    nextStep(next),
  );
}

const TABLE = [
  { title: 'Placement', cell: ({ branch }) => outside(placeOf(branch)) },
  { title: 'Hop', kind: 'short', cell: ({ hop }) => WORDS[hop.hop] },
  { title: 'State', kind: 'short', cell: ({ hop }) => badge(HOPS[hop.state].level, HOPS[hop.state].word, hop.state) },
  { title: 'Wants', kind: 'figure', cell: ({ hop }) => (isKnown(hop.wants) ? number(hop.wants) : '') },
  { title: 'Has', kind: 'figure', cell: ({ hop }) => (isKnown(hop.has) ? number(hop.has) : '') },
  { title: 'For', kind: 'short', cell: ({ hop }) => age(hop.since) },
  { title: 'Object', cell: ({ hop }) => outside(hop.object) },
  {
    title: 'Detail',
    kind: 'wide',
    cell: ({ hop }) => [hop.word && outside(hop.word, { class: 'strong' }), ' ', outside(hop.detail)],
  },
];

const INSTANCES = [
  { title: 'Instance', cell: ({ name }) => outside(name) },
  { title: 'City', kind: 'short', cell: ({ city }) => outside(city) },
  { title: 'Cell', cell: ({ cell }) => cell && h('a', { href: address('cell', [cell]) }, outside(cell)) },
  { title: 'Ready', kind: 'short', cell: ({ ready }) => badge(ready ? 'ok' : 'warn', ready ? 'ready' : 'not ready') },
  {
    title: 'In the project',
    kind: 'short',
    cell: ({ projected }) => badge(projected ? 'ok' : 'warn', projected ? 'yes' : 'not yet'),
  },
  { title: 'Verdict', cell: ({ word }) => word && badge('bad', word) },
];

/** Asks for the object to trace. */
function questionView(host) {
  const field = (name, label, value) =>
    h(
      'label',
      {},
      h('span', {}, label),
      h('input', { name, required: true, value, maxlength: '253', spellcheck: 'false', autocomplete: 'off' }),
    );
  const submit = (event) => {
    event.preventDefault();
    location.hash = traceOf(Object.fromEntries(new FormData(event.target)));
  };
  const kinds = ['workloads', 'workloaddeployments', 'instances'].map((kind) => h('option', { value: kind }, kind));
  host.append(
    h(
      'p',
      { class: 'empty' },
      'A trace shows the way of one object, hop by hop: project, hub, binding, cell, Instances, and back. Items of Stuck lead to theirs.',
    ),
    h(
      'form',
      { class: 'filters question', on: { submit } },
      field('project', 'project'),
      field('namespace', 'namespace', 'default'),
      h('label', {}, h('span', {}, 'kind'), h('select', { name: 'kind' }, kinds)),
      field('name', 'name'),
      h('button', { type: 'submit', class: 'primary' }, 'Trace'),
    ),
  );
  return { title: 'Trace', topics: [], load: () => Promise.resolve() };
}

/** Makes the view. */
export function traceView(host, route, app) {
  if (route.path.length === 0) return questionView(host);
  const [project, namespace, kind, name] = route.path;
  let asTable = route.query.show === 'table';
  let [trace, from, timer] = [null, 0, 0];
  const opened = new Set();
  const closed = new Set();
  const verdict = h('div', { class: 'verdict' });
  const tools = h('div', { class: 'actions' });
  const tree = h('div', { class: 'tree', role: 'group', 'aria-label': 'Hops; arrow keys walk them' });
  const hops = table({
    caption: 'Hops',
    columns: TABLE,
    key: ({ branch, hop }) => keyOf(branch, hop),
    empty: 'No placement names a city.',
  });
  const pages = h('div', { class: 'pager' });
  const instances = table({
    caption: 'Instances',
    columns: INSTANCES,
    key: (row) => row.name,
    empty: 'No Instance yet: no cell has written one back.',
  });
  const writes = h('ol', { class: 'writes' });
  host.append(
    h('div', { class: 'tools' }, verdict, tools),
    tree,
    hops.element,
    pages,
    h('section', { class: 'panel' }, h('h2', {}, 'Instances'), instances.element),
    h(
      'section',
      { class: 'panel' },
      h('h2', {}, h('a', { href: address('journal', [], { project }) }, 'Latest writes')),
      writes,
    ),
  );

  const isOpen = (key) => opened.has(key) || (key === firstBrokenKey(trace) && !closed.has(key));
  const toggle = (key) => {
    const open = isOpen(key);
    opened.delete(key);
    closed.delete(key);
    if (open) closed.add(key);
    else opened.add(key);
    if (opened.size > OPEN) opened.delete([...opened][0]);
    drawTree();
  };
  const node = (branch, hop) => {
    const key = keyOf(branch, hop);
    const { level, word } = HOPS[hop.state];
    const open = isOpen(key);
    const label = [
      WORDS[hop.hop],
      word,
      isKnown(hop.wants) && `wants ${hop.wants}, has ${hop.has ?? 'none'}`,
      clean(hop.word),
    ]
      .filter(Boolean)
      .join(', ');
    return h(
      'li',
      {},
      h(
        'button',
        {
          type: 'button',
          class: `hop ${level}`,
          'data-row': key,
          'data-state': hop.state,
          'aria-expanded': String(open),
          'aria-label': `${placeOf(branch)}: ${label}`,
          on: { click: () => toggle(key) },
        },
        h('span', { class: 'top' }, mark(level), WORDS[hop.hop]),
        figures(hop) ?? h('span', { class: 'gens' }, word),
        hop.hop === 'cell' && hop.object && outside(hop.object, { class: 'at' }),
      ),
    );
  };
  const row = (branch) =>
    h(
      'div',
      { class: 'branch', 'data-row': placeOf(branch) },
      h(
        'h3',
        {},
        branch.placement && h('span', { class: 'muted' }, outside(branch.placement), ' / '),
        outside(branch.city),
      ),
      h(
        'ol',
        { class: 'way' },
        branch.hops.map((hop) => node(branch, hop)),
      ),
      branch.hops
        .filter((hop) => isOpen(keyOf(branch, hop)))
        .map((hop) =>
          details(branch, hop, keyOf(branch, hop) === firstBrokenKey(trace) ? trace.firstBroken.next : null),
        ),
    );
  const page = () => trace.branches.slice(from, from + BRANCHES);
  const drawTree = () => {
    tree.hidden = asTable;
    hops.element.hidden = !asTable;
    if (!asTable) draw(tree, [page(), [...opened], [...closed], trace.firstBroken], () => page().map(row));
    if (asTable)
      hops.show(
        trace.branches.flatMap((branch) =>
          branch.hops.map((hop) => ({ branch: { placement: branch.placement, city: branch.city }, hop })),
        ),
      );
    const turn = (by) => ({
      type: 'button',
      on: { click: () => ((from += by), drawTree()) },
      disabled: by < 0 ? from === 0 : from + BRANCHES >= trace.branches.length,
    });
    pages.hidden = asTable || trace.branches.length <= BRANCHES;
    draw(pages, [from, trace.branches.length], () => [
      h('button', turn(-BRANCHES), 'Previous'),
      h(
        'span',
        { class: 'muted' },
        `${number(from + 1)}–${number(Math.min(from + BRANCHES, trace.branches.length))} of ${number(trace.branches.length)} placements, the worst first`,
      ),
      h('button', turn(BRANCHES), 'Next'),
    ]);
  };
  const drawVerdict = () =>
    draw(verdict, [trace.verdict, trace.firstBroken, asTable], () => {
      const [level, words] = VERDICTS[trace.verdict];
      const at = trace.firstBroken;
      return [
        h(
          'p',
          { class: `sentence small ${level}`, 'data-state': trace.verdict },
          mark(level),
          h('span', {}, words, at && [' at ', outside(placeOf(at)), `, hop ${WORDS[at.hop]}`]),
        ),
        at && asTable && h('p', { class: 'words' }, outside(at.detail)),
        at && asTable && nextStep(at.next),
      ];
    });
  const drawTools = () =>
    draw(tools, asTable, () => {
      const flip = () => {
        location.hash = address('trace', route.path, { show: asTable ? '' : 'table' });
      };
      return h(
        'button',
        { type: 'button', 'data-toggle': 'table', 'aria-pressed': String(asTable), on: { click: flip } },
        asTable ? 'Show as tree' : 'Show as table',
      );
    });

  tree.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === 'Escape' && event.target.getAttribute('aria-expanded') === 'true') event.target.click();
    if (!step) return;
    const rows = [...tree.querySelectorAll('.way')].map((way) => [...way.querySelectorAll('button')]);
    const y = rows.findIndex((buttons) => buttons.includes(event.target));
    if (y < 0) return;
    event.preventDefault();
    const target = rows[Math.min(Math.max(y + step[0], 0), rows.length - 1)];
    target[Math.min(Math.max(rows[y].indexOf(event.target) + step[1], 0), target.length - 1)].focus();
  });

  const object = [
    outside(`${namespace}/${name}`),
    ' ',
    h(
      'span',
      { class: 'muted' },
      outside(kind),
      ' in ',
      h('a', { href: address('project', [project]) }, outside(project)),
    ),
  ];
  drawTools();
  return {
    title: `Trace ${namespace}/${name}`,
    heading: object,
    topics: ['projects', 'journal'],
    change(next) {
      if (next.path.join('/') !== route.path.join('/') || !trace) return false;
      asTable = next.query.show === 'table';
      drawTools();
      drawVerdict();
      drawTree();
      return true;
    },
    async load() {
      const answer = await app.get(['trace', ...route.path]);
      answer.branches.sort((a, b) => worst(a) - worst(b));
      if (trace && trace.verdict !== answer.verdict) app.announce(`The trace is now ${answer.verdict}.`);
      trace = answer;
      clearTimeout(timer);
      const due = breaksIn(trace);
      if (due !== null) timer = setTimeout(app.refresh, due);
      from = Math.min(from, Math.max(0, trace.branches.length - 1));
      drawVerdict();
      drawTree();
      instances.show(trace.instances);
      draw(writes, trace.journal, () =>
        trace.journal.length > 0
          ? trace.journal.map(writeRow)
          : h('li', { class: 'empty' }, 'No write of these objects is in the journal.'),
      );
    },
    delta(data) {
      const isOurs =
        data.projects?.rows.some((row) => row.project === project) || data.projects?.gone.includes(project);
      if (isOurs || data.journal?.some((row) => row.project === project)) app.refresh();
    },
    close: () => clearTimeout(timer),
  };
}
