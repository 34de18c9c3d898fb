/** Now: where the fleet hurts, in one sentence; planes and delivery as one picture; the last 60 seconds. */

import { badge, draw, h, keyed, mark, nextStep, outside } from './dom.js';
import { Changes, sparkline, writeRow } from './journal.js';
import { address } from './router.js';
import { CLASSES, LEVELS, STAGES, age, isOlder, levelOf, number, plural, sentence, stateOf, worstOf } from './words.js';

const PROJECTS = 6;
const CELLS = 60;

const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);

/** What hurts, the worst first, as sentences with their next steps; empty if all is well. */
export function headlines(overview) {
  const { health, cells, stuck, undelivered } = overview;
  const reasons = health.reasons.map((reason) => ({
    level: levelOf(reason.class),
    text: sentence(reason),
    since: reason.since,
    next: reason.next,
    href: address('stuck', [], { class: reason.class }),
  }));
  const others = Object.keys(CLASSES)
    .filter((name) => stuck[name] > 0 && !['plane', 'right', 'brake'].includes(name))
    .map((name) => ({
      level: levelOf(name),
      text: `${number(stuck[name])} ${plural(stuck[name], 'object')} ${stuck[name] === 1 ? 'is' : 'are'} ${CLASSES[name].word}: ${CLASSES[name].means}`,
      href: address('stuck', [], { class: name }),
      since: name === 'undelivered' ? oldest(undelivered) : undefined,
    }));
  const away = cells?.not_ready ?? 0;
  const total = cells ? sum(cells) : 0;
  if (away > 0)
    others.unshift({
      level: 'bad',
      text: `${number(away)} of ${number(total)} ${plural(total, 'cell')} ${away === 1 ? 'is' : 'are'} not ready`,
      href: address('cell'),
      next: 'check the Cluster on the hub: kubectl get clusters',
    });
  const rank = ({ level }) => LEVELS.indexOf(level);
  return [...reasons, ...others.sort((a, b) => rank(a) - rank(b))];
}

const oldest = (undelivered) =>
  Object.values(undelivered)
    .map((stage) => stage.oldest)
    .filter(Boolean)
    .sort()[0];

function drawHealth(overview) {
  const found = headlines(overview);
  const [first, ...rest] = found;
  const { projects, cells, deployments, health } = overview;
  if (!first) {
    const answering = (cells?.ready ?? 0) + (cells?.draining ?? 0);
    const isEmpty = projects && projects.engaged === 0 && sum(cells) === 0;
    const fleet = !projects
      ? 'Every plane answers, nothing is stuck.'
      : isEmpty
        ? 'The fleet is empty: no cell has joined, and no project is engaged.'
        : `${number(projects.engaged)} ${plural(projects.engaged, 'project')} and ${number(answering)} ${plural(answering, 'cell')} answer; ${number(deployments.total)} ${plural(deployments.total, 'deployment')}, nothing is stuck.`;
    const syncing = health.state === 'syncing';
    return [
      h(
        'p',
        { id: 'health', class: `sentence ${syncing ? 'note' : 'ok'}`, 'data-state': health.state },
        mark(syncing ? 'note' : 'ok'),
        h('span', {}, syncing ? 'First lists are being read' : 'All is well'),
      ),
      h('p', { class: 'muted lead' }, syncing ? 'Figures grow until every plane has been listed.' : fleet),
    ];
  }
  return [
    h(
      'p',
      { id: 'health', class: `sentence ${first.level}`, 'data-state': health.state },
      mark(first.level),
      h(
        'span',
        {},
        h('a', { href: first.href }, outside(first.text)),
        ' ',
        h('span', { class: 'since' }, age(first.since, { prefix: 'for ' })),
      ),
    ),
    nextStep(first.next),
    rest.length > 0 &&
      h(
        'ul',
        { class: 'headlines', 'aria-label': 'Also' },
        rest
          .slice(0, 6)
          .map((one) =>
            h(
              'li',
              { 'data-state': one.level },
              mark(one.level),
              h('a', { href: one.href }, outside(one.text)),
              h('span', { class: 'muted' }, age(one.since, { prefix: 'for ' })),
              one.next && h('details', {}, h('summary', {}, 'next'), nextStep(one.next)),
            ),
          ),
        rest.length > 6 && h('li', {}, h('a', { href: address('stuck') }, `${number(rest.length - 6)} more`)),
      ),
  ];
}

function plane(name, href, figure, of, states) {
  return h(
    'div',
    { class: 'plane' },
    h('h3', {}, h('a', { href }, name)),
    h('p', { class: 'figure' }, figure, of && h('span', { class: 'muted' }, ` ${of}`)),
    h(
      'ul',
      {},
      states.filter(Boolean).map((state) => h('li', {}, state)),
    ),
  );
}

const counted = (state, count) =>
  count > 0 && badge(stateOf(state).level, `${number(count)} ${stateOf(state).word}`, state);

function projectsPlane({ engaged, refused, connected, syncing, backoff, unauthorized }) {
  const troubles = [
    counted('refused', refused),
    counted('backoff', backoff),
    counted('unauthorized', unauthorized),
    counted('syncing', syncing),
  ];
  return plane(
    'Projects',
    address('project'),
    number(engaged),
    null,
    troubles.some(Boolean)
      ? troubles
      : [
          engaged > 0
            ? badge('ok', `${number(connected)} connected`, 'connected')
            : h('span', { class: 'muted' }, 'none is engaged'),
        ],
  );
}

function hubPlane(hub) {
  const { level, word } = stateOf(hub.state);
  return plane('Hub', address('stuck', [], { class: 'plane' }), badge(level, word, hub.state), null, [
    h('span', { class: 'muted' }, age(hub.since, { prefix: 'for ' })),
    hub.lastEvent && h('span', { class: 'muted' }, age(hub.lastEvent, { prefix: 'last event ', suffix: ' ago' })),
    // An end after more than ten years is no news.
    isOlder(hub.credentialEnds, -3650 * 1440) &&
      (isOlder(hub.credentialEnds, 0)
        ? badge('dead', 'credential expired')
        : h(
            'span',
            { class: isOlder(hub.credentialEnds, -7 * 1440) ? 'warn' : 'muted' },
            age(hub.credentialEnds, { prefix: 'credential ends ' }),
          )),
  ]);
}

function cellsPlane(cells) {
  const total = sum(cells);
  const troubles = [
    counted('not_ready', cells.not_ready),
    counted('draining', cells.draining),
    counted('unlabelled', cells.unlabelled),
    counted('leaving', cells.leaving),
  ];
  return plane(
    'Cells',
    address('cell'),
    number(cells.ready),
    `of ${number(total)} ready`,
    troubles.some(Boolean)
      ? troubles
      : [total > 0 ? badge('ok', 'all ready', 'ready') : h('span', { class: 'muted' }, 'none has joined')],
  );
}

/** The level of a stage by the age of its oldest object. */
function stageLevel({ count, oldest: since }) {
  if (count === 0) return 'ok';
  if (isOlder(since, 10)) return 'bad';
  return isOlder(since, 1) ? 'warn' : 'note';
}

function lane(name, stage, direction) {
  const { word, means } = STAGES[name];
  const level = stageLevel(stage);
  return h(
    'a',
    {
      class: `lane ${direction} ${level}`,
      href: address('stuck', [], { class: 'undelivered' }),
      'data-row': name,
      'data-state': level,
      title: means,
    },
    h('span', { class: 'name' }, word),
    h('span', { class: 'line', 'aria-hidden': 'true' }),
    h(
      'span',
      { class: 'amount' },
      stage.count > 0 && mark(level),
      h('b', {}, number(stage.count)),
      stage.count > 0
        ? h('span', {}, age(stage.oldest, { prefix: 'oldest ' }))
        : h('span', { class: 'muted' }, 'waiting'),
    ),
  );
}

/** The way back from the cells, which fedgate does not measure by itself. */
const reports = (existing) =>
  h(
    'div',
    { class: 'lane back' },
    h('span', { class: 'name' }, 'reports'),
    h('span', { class: 'line', 'aria-hidden': 'true' }),
    h(
      'span',
      { class: 'amount' },
      h('b', {}, number(existing)),
      h('span', { class: 'muted' }, plural(existing, 'Instance')),
    ),
  );

function drawFlow({ projects, hub, cells, undelivered, instances }) {
  const stage = (name) => undelivered[name] ?? { count: 0 };
  if (!projects || !cells) return hub ? [hubPlane(hub)] : [];
  return [
    projectsPlane(projects),
    h(
      'div',
      { class: 'lanes' },
      lane('project_to_hub', stage('project_to_hub'), 'forth'),
      lane('hub_status_to_project', stage('hub_status_to_project'), 'back'),
      lane('writeback_to_projection', stage('writeback_to_projection'), 'back'),
    ),
    hub ? hubPlane(hub) : plane('Hub', address('stuck'), badge('none', 'unknown'), null, []),
    h('div', { class: 'lanes' }, lane('hub_to_cell', stage('hub_to_cell'), 'forth'), reports(instances.existing)),
    cellsPlane(cells),
  ];
}

function bar(parts, total) {
  const segments = parts
    .filter(([, count]) => count > 0)
    .map(([level, count]) => {
      const part = h('span', { class: level });
      part.style.flexGrow = String(count / Math.max(1, total));
      return part;
    });
  return h('div', { class: 'meter', 'aria-hidden': 'true' }, segments);
}

function drawInstances({ instances, deployments }) {
  const { desired, existing, ready, updated } = instances;
  const share = desired > 0 ? `, ${(Math.floor((ready / desired) * 1000) / 10).toFixed(1)} %` : '';
  const fact = (term, figure) => h('div', {}, h('dt', {}, term), h('dd', {}, number(figure)));
  const reasons = Object.entries(deployments.federated).sort((a, b) => b[1] - a[1]);
  return [
    h('p', { class: 'figure' }, number(ready), h('span', { class: 'muted' }, ` of ${number(desired)} ready${share}`)),
    bar(
      [
        ['ok', Math.min(ready, desired)],
        ['warn', Math.max(0, Math.min(existing, desired) - ready)],
        ['none', Math.max(0, desired - existing)],
      ],
      desired,
    ),
    h(
      'dl',
      { class: 'facts' },
      fact('desired', desired),
      fact('existing', existing),
      fact('ready', ready),
      fact('up to date', updated),
    ),
    h('h3', {}, `${number(deployments.total)} ${plural(deployments.total, 'deployment')}, by Federated`),
    reasons.length === 0
      ? h('p', { class: 'empty' }, 'No deployment exists yet.')
      : h(
          'ul',
          { class: 'reasons' },
          reasons.slice(0, 8).map(([reason, count]) =>
            h(
              'li',
              { 'data-row': reason },
              outside(reason === 'None' ? 'no condition yet' : reason),
              bar(
                [
                  [reason === 'Delivered' ? 'ok' : 'warn', count],
                  ['none', deployments.total - count],
                ],
                deployments.total,
              ),
              h('b', {}, number(count)),
            ),
          ),
        ),
  ];
}

function drawProcess({ queue, deletions, garbage, interpreterDrift }) {
  const fact = (term, figure, more) =>
    h('div', {}, h('dt', {}, term), h('dd', {}, number(figure), more && [' ', more]));
  return h(
    'dl',
    { class: 'facts' },
    fact('ready in queue', queue.ready),
    fact('running', queue.running),
    fact('due later', queue.delayed),
    fact('in backoff', queue.inBackoff),
    fact(
      'deletions',
      deletions.pending,
      deletions.oldest && h('span', { class: 'muted' }, age(deletions.oldest, { prefix: 'oldest ' })),
    ),
    fact('orphans', garbage.orphans, garbage.brake && badge('bad', 'brake on')),
    fact('interpreters that differ', interpreterDrift),
  );
}

function cellTile({ cell, city, state, reason, since, instances, notApplied }) {
  const { level, word } = stateOf(state);
  const trouble = !['ready', 'draining'].includes(state);
  return h(
    'li',
    {},
    h(
      'a',
      { class: `tile ${level}`, href: address('cell', [cell]), 'data-state': state },
      h(
        'span',
        { class: 'top' },
        mark(level),
        outside(cell, { class: 'strong' }),
        h('span', { class: 'muted' }, outside(city ?? 'no city')),
      ),
      h(
        'span',
        { class: 'muted' },
        trouble
          ? [outside(reason ?? word), since && [' ', age(since)]]
          : `${number(instances.ready)} of ${number(instances.existing)} ready`,
        notApplied > 0 && `, ${number(notApplied)} not applied`,
      ),
    ),
  );
}

function projectRow({ project, worst, stuck, undelivered, instances }) {
  return h(
    'li',
    {},
    h('a', { href: address('project', [project]) }, mark(levelOf(worst?.class)), outside(project, { class: 'strong' })),
    h('span', {}, worstOf(worst)),
    h(
      'span',
      { class: 'muted' },
      `${number(instances.ready)} of ${number(instances.desired)} ready`,
      stuck > 0 && `, ${number(stuck)} stuck`,
      undelivered > 0 && `, ${number(undelivered)} undelivered`,
    ),
  );
}

/** Makes the view. */
export function nowView(host, route, app) {
  const parts = {
    health: h('section', { class: 'hero', 'aria-label': 'Health' }),
    flow: h('div', { class: 'flow' }),
    instances: h('div'),
    process: h('div'),
  };
  const [cells, projects, writes] = [
    h('ul', { class: 'tiles' }),
    h('ul', { class: 'hurting' }),
    h('ol', { class: 'writes' }),
  ];
  const [spark, sparkWords, cellsEmpty, projectsEmpty] = [
    h('div'),
    h('p', { class: 'figure' }),
    h('p', { class: 'empty', hidden: true }, 'No cell has joined the hub yet.'),
    h('p', { class: 'empty', hidden: true }, 'None: every project is well.'),
  ];
  const section = (title, ...children) => h('section', { class: 'panel' }, h('h2', {}, title), children);
  const cellsPanel = section(h('a', { href: address('cell') }, 'Cells'), cells, cellsEmpty);
  const projectsPanel = section(
    h('a', { href: address('project') }, 'Projects that hurt most'),
    projects,
    projectsEmpty,
  );
  host.append(
    parts.health,
    h('section', { 'aria-labelledby': 'delivery' }, h('h2', { id: 'delivery' }, 'Planes and delivery'), parts.flow),
    h(
      'div',
      { class: 'columns' },
      projectsPanel,
      section(h('a', { href: address('journal') }, 'Last 60 seconds'), sparkWords, spark, writes),
    ),
    cellsPanel,
    h('div', { class: 'columns' }, section('Instances', parts.instances), section('This replica', parts.process)),
  );
  const more = h('p', { class: 'empty', hidden: true });
  cellsPanel.append(more);
  const changes = new Changes();
  const known = new Map();
  let worst = [];

  const drawChanges = () => {
    const seconds = changes.seconds();
    const [all, failed] = [
      seconds.reduce((total, one) => total + one.all, 0),
      seconds.reduce((total, one) => total + one.failed, 0),
    ];
    draw(sparkWords, [all, failed], () => [
      number(all),
      h('span', { class: 'muted' }, ` ${plural(all, 'write')}`),
      failed > 0 && h('span', { class: 'bad' }, mark('bad'), `${number(failed)} failed`),
    ]);
    draw(spark, seconds, () => sparkline(seconds));
    keyed(writes, changes.latest(), (row) => row.seq, writeRow);
  };
  const drawCells = () => {
    const order = Object.keys({ not_ready: 0, leaving: 0, draining: 0, unlabelled: 0, ready: 0 });
    const rows = [...known.values()].sort(
      (a, b) => order.indexOf(a.state) - order.indexOf(b.state) || a.cell.localeCompare(b.cell),
    );
    keyed(cells, rows.slice(0, CELLS), (row) => row.cell, cellTile);
    cellsEmpty.hidden = rows.length > 0;
    more.hidden = rows.length <= CELLS;
    more.textContent = `${number(rows.length - CELLS)} more, all listed in Cells`;
  };
  const drawProjects = () => {
    keyed(projects, worst, (row) => row.project, projectRow);
    projectsEmpty.hidden = worst.length > 0;
  };
  let timer = 0;
  /** The levels of the stages are of their ages, which no event tells. */
  const drawStages = (overview) => {
    const { projects: planes, hub, cells: states, undelivered, instances } = overview;
    const levels = Object.values(undelivered).map(stageLevel);
    draw(parts.flow, [planes, hub, states, undelivered, instances.existing, levels], () => drawFlow(overview));
  };
  const everySecond = () => {
    drawChanges();
    if (app.store.overview) drawStages(app.store.overview);
  };

  return {
    title: 'Now',
    topics: ['cells', 'journal'],
    overview(overview) {
      draw(
        parts.health,
        [
          overview.health,
          overview.cells,
          overview.stuck,
          overview.undelivered,
          overview.projects,
          overview.deployments.total,
        ],
        () => drawHealth(overview),
      );
      drawStages(overview);
      draw(parts.instances, [overview.instances, overview.deployments], () => drawInstances(overview));
      draw(parts.process, [overview.queue, overview.deletions, overview.garbage, overview.interpreterDrift], () =>
        drawProcess(overview),
      );
    },
    async load() {
      const [journal, cellRows, projectRows] = await Promise.all([
        app.get('journal', { limit: '500' }),
        app.getIfServed('cells', { sort: 'worst', limit: '500' }),
        app.getIfServed('projects', { sort: 'worst', limit: String(PROJECTS) }),
      ]);
      changes.add(journal.items);
      known.clear();
      for (const row of cellRows.items) known.set(row.cell, row);
      worst = projectRows.items.filter((row) => row.worst);
      timer ||= setInterval(everySecond, 1000);
      drawChanges();
      drawCells();
      drawProjects();
    },
    delta(data) {
      if (data.journal) changes.add(data.journal);
      if (!data.cells) return;
      for (const row of data.cells.rows) known.set(row.cell, row);
      for (const name of data.cells.gone) known.delete(name);
      drawCells();
    },
    close: () => clearInterval(timer),
  };
}
