/** Map: projects, cities and cells as bands. Width is the number of Instances; colour and pattern are the worst class. */

import { badge, clean, draw, h, mark, outside, s, shapeOf } from './dom.js';
import { REST, flowTable, fold, readFlows } from './detail.js';
import { table } from './list.js';
import { address } from './router.js';
import {
  age,
  clear,
  duration,
  isOlder,
  levelOf,
  now,
  number,
  plural,
  severity,
  stateOf,
  wordOf,
  worse,
} from './words.js';

/** A state that has lasted for this time, in minutes, has a mark. */
const OLD = 15;
/** Least height of a place with its label, and of a band, in pixels. */
const PLACE = 17;
const THIN = 1.25;
/** Width of a letter of a label, in pixels. */
const LETTER = 7.2;
const SIDES = ['project', 'city', 'cell'];

const add = (sums, key, flow, base) => {
  const known = sums.get(key);
  if (!known) return sums.set(key, { ...base, key, instances: flow.instances, ready: flow.ready, worst: flow.worst });
  known.instances += flow.instances;
  known.ready += flow.ready;
  known.worst = worse(known.worst, flow.worst);
  return sums;
};

/** The worst state of a flow at its cell: that of the cell comes first if the cell is not ready. */
function atCell(flow, cells) {
  const cell = cells.get(flow.cell);
  if (!cell || ['ready', 'draining'].includes(cell.state) || severity(flow.worst) < severity({ class: 'quarantined' })) return flow.worst;
  return { state: cell.state, reason: cell.reason ?? '', since: cell.since };
}

/** The level of a worst state, be it of a class or of a cell. */
const level = (worst) => (worst?.state ? stateOf(worst.state).level : levelOf(worst?.class));

/** Places and bands of the picture, with their heights in pixels. Between a city and a cell there is a band per level, so
 * that a problem is as wide as the Instances that it concerns. */
function layout(flows, cells) {
  const places = SIDES.map(() => new Map());
  const bands = [new Map(), new Map()];
  for (const flow of flows) {
    const names = SIDES.map((side) => flow[side]);
    const there = { ...flow, worst: atCell(flow, cells) };
    names.forEach((name, side) => add(places[side], name, side === 2 ? there : flow, { name, side }));
    add(bands[0], JSON.stringify([0, names[0], names[1]]), flow, { side: 0, from: names[0], to: names[1] });
    add(bands[1], JSON.stringify([1, names[1], names[2], level(there.worst)]), there, {
      side: 1,
      from: names[1],
      to: names[2],
    });
  }
  const total = Math.max(
    1,
    flows.reduce((sum, flow) => sum + flow.instances, 0),
  );
  const most = Math.max(...places.map((side) => side.size), 1);
  const height = Math.max(320, most * (PLACE + 5) + 120);
  const scale = Math.max(60, height - most * 9) / total / 1.6;
  const cities = [...places[1].values()].sort((a, b) => b.instances - a.instances);
  const rankOfCity = new Map(cities.map((city, at) => [city.name, at]));
  const cityOf = new Map([...bands[1].values()].map((band) => [band.to, rankOfCity.get(band.from)]));
  const order = [
    [...places[0].values()].sort(
      (a, b) =>
        (a.name === REST) - (b.name === REST) || severity(a.worst) - severity(b.worst) || b.instances - a.instances,
    ),
    cities,
    [...places[2].values()].sort((a, b) => cityOf.get(a.name) - cityOf.get(b.name) || a.name.localeCompare(b.name)),
  ];
  let bottom = 0;
  const heights = order.map((side) => side.reduce((sum, place) => sum + Math.max(place.instances * scale, PLACE), 0));
  const full = Math.max(height, ...heights.map((of, at) => of + order[at].length * 5));
  order.forEach((side, at) => {
    const gap = Math.min(26, (full - heights[at]) / Math.max(1, side.length));
    let y = Math.max(0, (full - heights[at] - gap * side.length) / 2);
    for (const place of side) {
      const slot = Math.max(place.instances * scale, PLACE);
      place.height = Math.max(place.instances * scale, 3);
      place.y = y + (slot - place.height) / 2;
      place.used = [0, 0];
      y += slot + gap;
    }
    bottom = Math.max(bottom, y);
  });
  const list = bands.map((side, at) =>
    [...side.values()].sort(
      (a, b) =>
        places[at + 1].get(a.to).y - places[at + 1].get(b.to).y ||
        places[at].get(a.from).y - places[at].get(b.from).y ||
        severity(a.worst) - severity(b.worst),
    ),
  );
  list.forEach((side, at) => {
    for (const band of side) band.thick = Math.max(THIN, band.instances * scale);
    const along = (end, map, slot) => {
      for (const band of side) {
        const place = map.get(band[end]);
        const sum = side.filter((one) => one[end] === band[end]).reduce((all, one) => all + one.thick, 0);
        const squeeze = Math.min(1, Math.max(place.height, THIN) / sum);
        band[slot] = place.y + place.used[slot === 'y0' ? 1 : 0];
        band[`${slot}h`] = Math.max(THIN, band.thick * squeeze);
        place.used[slot === 'y0' ? 1 : 0] += band.thick * squeeze;
      }
    };
    along('from', places[at], 'y0');
    side.sort((a, b) => places[at].get(a.from).y - places[at].get(b.from).y);
    along('to', places[at + 1], 'y1');
  });
  return { order, bands: list, height: bottom };
}

const PATTERNS = {
  note: ['M0 4h8', 1.2],
  warn: ['M-2 10 10 -2M-2 2 2 -2M6 10 10 6', 2],
  bad: ['M-2 10 10 -2M-2 2 2 -2M6 10 10 6', 3.4],
  dead: ['M0 0 8 8M8 0 0 8', 2],
};

const patterns = () =>
  s(
    'defs',
    {},
    Object.entries(PATTERNS).map(([level, [d, width]]) =>
      s(
        'pattern',
        { id: `pattern-${level}`, class: `pattern ${level}`, width: 8, height: 8, patternUnits: 'userSpaceOnUse' },
        s('rect', { width: 8, height: 8 }),
        s('path', { d, 'stroke-width': width, fill: 'none' }),
      ),
    ),
  );

const NOTHING = 'No Instance runs yet. Bands appear as soon as a cell has written one back.';

/** The word of a worst state, be it of a class or of a cell. */
const wordFor = (worst) => (worst?.state ? stateOf(worst.state).word : wordOf(worst?.class));

/** The end of a band, with a link where it is a project or a cell. */
const endOf = (text, side, name) => [
  side !== 1 && name && name !== REST ? h('a', { href: address(SIDES[side], [name]) }, outside(text)) : outside(text),
  ' ',
  h('span', { class: 'muted' }, SIDES[side]),
];

const BANDS_COLUMNS = [
  { title: 'From', cell: ({ from, side, names }) => endOf(from, side, names[0]) },
  { title: 'To', cell: ({ to, side, names }) => endOf(to, side + 1, names[1]) },
  { title: 'Instances', kind: 'figure', cell: ({ instances }) => number(instances) },
  { title: 'Ready', kind: 'figure', cell: ({ ready }) => number(ready) },
  {
    title: 'Worst',
    kind: 'wide',
    cell: (row) => [badge(row.level, row.word), row.reason && [' ', outside(clear(row.reason))]],
  },
  { title: 'For', kind: 'short', cell: ({ since }) => age(since) },
];

/** Makes the view. */
export function mapView(host, route, app) {
  let query = route.query;
  let [items, picture, chosen] = [[], null, 0];
  let cells = new Map();
  const filters = h('div', { class: 'filters' });
  const toggle = h('button', { type: 'button', 'data-toggle': 'table' });
  const legend = h(
    'ul',
    { class: 'legend', 'aria-label': 'Legend' },
    [
      ['ok', 'well'],
      ...Object.entries({
        note: 'deleting or orphan',
        warn: 'retrying, undelivered, waiting, unavailable',
        bad: 'quarantined, refused, brake, cell not ready',
        dead: 'plane down, right missing',
      }),
    ].map(([level, word]) =>
      h(
        'li',
        {},
        s(
          'svg',
          { class: 'swatch', viewBox: '0 0 24 12', 'aria-hidden': 'true' },
          s('rect', { class: `band ${level}`, width: 24, height: 12 }),
        ),
        mark(level),
        word,
      ),
    ),
    h('li', {}, h('span', { class: 'old', 'aria-hidden': 'true' }, '◷'), `for more than ${OLD} min`),
  );
  const drawing = h('div', { class: 'drawing', 'aria-hidden': 'true' });
  const walker = h('div', {
    class: 'walker',
    tabindex: '0',
    hidden: true,
    role: 'slider',
    'aria-label': 'Bands of the map',
    'aria-valuemin': '1',
  });
  const rows = flowTable('Instances by project, city and cell', NOTHING);
  const bandRows = table({
    caption: 'Bands of the map',
    columns: BANDS_COLUMNS,
    key: (row) => row.key,
    empty: NOTHING,
  });
  const note = h('p', { class: 'empty', hidden: true }, NOTHING);
  host.append(
    h('div', { class: 'tools' }, legend, h('div', { class: 'actions' }, toggle)),
    filters,
    walker,
    drawing,
    note,
    bandRows.element,
    rows.element,
  );

  const isTable = () => query.show === 'table';
  const isFiltered = () => SIDES.some((side) => query[side]);
  const link = (changes) => address('map', [], { ...query, ...changes });
  toggle.addEventListener('click', () => {
    location.hash = link({ show: isTable() ? '' : 'table' });
  });
  const nameOf = (side, name) =>
    name === REST
      ? side === 0
        ? `${number(others())} others`
        : 'other cells'
      : name === ''
        ? side === 2
          ? 'no cell named'
          : 'no city'
        : name;
  const others = () => {
    const engaged = app.store.overview?.projects?.engaged ?? 0;
    const summed = Math.max(0, ...items.filter((flow) => flow.project === REST).map((flow) => flow.projects ?? 0));
    return isFiltered() ? summed : Math.max(summed, engaged - picture.named);
  };
  const words = (band) => {
    const lasts = band.worst?.since ? ` for ${duration((now() - Date.parse(band.worst.since)) / 1000)}` : '';
    const worst = band.worst ? `${wordFor(band.worst)}: ${clear(band.worst.reason)}${lasts}` : 'well';
    return `${nameOf(band.side, band.from)} → ${nameOf(band.side + 1, band.to)}: ${number(band.instances)} ${plural(band.instances, 'Instance')}, ${number(band.ready)} ready, ${worst}`;
  };
  const bandsOf = () => picture.bands.flat();
  const rowOf = ({ side, key, from, to, instances, ready, worst }) => ({
    key,
    from: nameOf(side, from),
    to: nameOf(side + 1, to),
    names: [from, to],
    side,
    instances,
    ready,
    level: level(worst),
    word: wordFor(worst),
    reason: worst?.reason,
    since: worst?.since,
  });
  const openBand = (band) => {
    const changes =
      band.side === 0
        ? { project: band.from === REST ? '' : band.from, city: band.to }
        : { city: band.from, cell: band.to === REST ? '' : band.to };
    location.hash = link(changes);
  };
  const choose = (at) => {
    const bands = bandsOf();
    if (bands.length === 0) return;
    chosen = Math.min(Math.max(at, 0), bands.length - 1);
    const band = bands[chosen];
    walker.setAttribute('aria-valuemax', String(bands.length));
    walker.setAttribute('aria-valuenow', String(chosen + 1));
    walker.setAttribute('aria-valuetext', clean(words(band)));
    walker.replaceChildren(
      mark(level(band.worst)),
      outside(words(band)),
      h('span', { class: 'muted keys' }, '← → ↑ ↓ walk, Enter opens'),
    );
    drawing.querySelector('.chosen')?.classList.remove('chosen');
    drawing.querySelector(`[data-band="${chosen}"]`)?.classList.add('chosen');
  };
  walker.addEventListener('keydown', (event) => {
    const bands = bandsOf();
    const sideways = { ArrowLeft: 0, ArrowRight: 1 }[event.key];
    if (event.key === 'ArrowDown') choose(chosen + 1);
    else if (event.key === 'ArrowUp') choose(chosen - 1);
    else if (event.key === 'Home') choose(0);
    else if (event.key === 'End') choose(bands.length - 1);
    else if (sideways !== undefined) {
      const here = bands[chosen];
      const meets = (band) =>
        band.side === sideways && (sideways > here.side ? band.from === here.to : band.to === here.from);
      const at = here.side === sideways ? -1 : bands.findIndex(meets);
      if (at >= 0) choose(at);
    } else if (event.key === 'Enter' && bands[chosen]) openBand(bands[chosen]);
    else if (event.key === 'Escape' && isFiltered()) location.hash = address('map', [], { show: query.show });
    else return;
    event.preventDefault();
  });

  const render = () => {
    const width = Math.max(300, drawing.clientWidth);
    const narrow = width < 640;
    const margin = narrow ? [112, 0, 72] : [180, 0, 130];
    const [bar, { order, bands, height }] = [6, picture];
    const middle = margin[0] + (width - margin[0] - margin[2]) * 0.5;
    const x = [margin[0], middle - bar / 2, width - margin[2] - bar];
    const short = (text, room) =>
      text.length * LETTER > room ? `${text.slice(0, Math.max(3, Math.floor(room / LETTER) - 1))}…` : text;
    const path = ({ side, y0, y0h, y1, y1h }) => {
      const [a, b] = [x[side] + bar, x[side + 1]];
      const m = (a + b) / 2;
      return `M${a} ${y0}C${m} ${y0} ${m} ${y1} ${b} ${y1}V${y1 + y1h}C${m} ${y1 + y1h} ${m} ${y0 + y0h} ${a} ${y0 + y0h}Z`;
    };
    const drawBand = (band, at) => {
      const shape = s(
        'path',
        { class: `band ${level(band.worst)}`, d: path(band), 'data-band': at },
        s('title', {}, clean(words(band))),
      );
      shape.addEventListener('click', () => openBand(band));
      shape.addEventListener('pointerenter', () => choose(at));
      return shape;
    };
    const oldMark = (band) => {
      if (!band.worst || !isOlder(band.worst.since, OLD)) return null;
      const [cx, cy] = [
        (x[band.side] + bar + x[band.side + 1]) / 2,
        (band.y0 + band.y1 + (band.y0h + band.y1h) / 2) / 2,
      ];
      return s(
        'g',
        { class: `clock-mark ${levelOf(band.worst.class)}` },
        s('circle', { cx, cy, r: 5.5 }),
        s('path', { d: `M${cx} ${cy - 3.2}V${cy}H${cx + 2.6}` }),
      );
    };
    const label = (place) => {
      const { side, name, y, height: tall, worst, instances } = place;
      const of = level(worst);
      const text = clean(nameOf(side, name));
      const cy = y + tall / 2;
      const [tx, anchor, room] = [
        [margin[0] - 22, 'end', margin[0] - 62],
        [middle, 'middle', narrow ? 40 : 120],
        [x[2] + bar + 22, 'start', margin[2] - 26],
      ][side];
      const glyph =
        side === 1
          ? null
          : s('path', {
              class: `glyph ${of}`,
              d: shapeOf(of),
              transform: `translate(${side === 0 ? margin[0] - 17 : x[2] + bar + 5} ${cy - 6}) scale(.75)`,
            });
      const figure = side === 0 && !narrow ? s('text', { class: 'count', x: 0, y: cy + 4 }, number(instances)) : null;
      return s(
        'g',
        { class: `place ${side === 1 ? 'plain' : of}` },
        s('rect', { class: 'node', x: x[side], y, width: bar, height: tall, rx: 2 }),
        glyph,
        figure,
        s(
          'text',
          { class: side === 1 ? 'city' : null, x: tx, y: side === 1 ? y - 4 : cy + 4, 'text-anchor': anchor },
          short(text, side === 0 && narrow ? margin[0] - 22 : room),
          s('title', {}, `${text}: ${number(instances)} Instances`),
        ),
      );
    };
    const flat = bands.flat();
    const svg = s(
      'svg',
      { viewBox: `0 -18 ${width} ${Math.ceil(height) + 22}`, width, height: Math.ceil(height) + 22 },
      patterns(),
      flat.map(drawBand).sort((a, b) => severity(flat[b.dataset.band].worst) - severity(flat[a.dataset.band].worst)),
      flat.map(oldMark),
      order.flat().map(label),
    );
    drawing.replaceChildren(svg);
    choose(chosen);
  };

  const drawAll = () => {
    toggle.textContent = isTable() ? 'Show as map' : 'Show as table';
    toggle.setAttribute('aria-pressed', String(isTable()));
    draw(filters, query, () =>
      SIDES.filter((side) => query[side]).map((side) =>
        h(
          'a',
          { class: 'chip', href: link({ [side]: '' }), 'aria-label': `Remove the filter ${side}` },
          `${side}: `,
          outside(query[side]),
          h('span', { 'aria-hidden': 'true' }, ' ✕'),
        ),
      ),
    );
    const { flows, named } = fold(items);
    picture = { ...layout(flows, cells), named };
    const hasMap = !isTable() && flows.length > 0;
    for (const part of [drawing, walker, legend]) part.hidden = !hasMap;
    const hasRows = isFiltered() && flows.length > 0;
    note.hidden = isTable() || flows.length > 0;
    bandRows.element.hidden = !isTable();
    rows.element.hidden = !hasRows;
    const worstFirst = (a, b) => severity(a.worst) - severity(b.worst) || b.instances - a.instances;
    bandRows.show(isTable() ? bandsOf().sort(worstFirst).map(rowOf) : []);
    const order = [...flows].sort(worstFirst);
    rows.show(hasRows ? order.map((flow) => (flow.project === REST ? { projects: 1, ...flow } : flow)) : []);
    if (hasMap) render();
  };
  let width = 0;
  const observer = new ResizeObserver(() => {
    if (picture && !drawing.hidden && drawing.clientWidth !== width) {
      width = drawing.clientWidth;
      render();
    }
  });
  observer.observe(drawing);
  let timer = 0;
  /** Brings the marks of old states and the ages in the words up to date. */
  const redraw = setInterval(() => {
    if (picture && !drawing.hidden) render();
  }, 60_000);
  const later = () => {
    timer ||= setTimeout(() => ((timer = 0), app.refresh()), 5000);
  };

  return {
    title: 'Map',
    topics: ['projects', 'cells'],
    change(next) {
      query = next.query;
      if (items.length > 0) drawAll();
      return true;
    },
    async load() {
      const filter = Object.fromEntries(SIDES.map((side) => [side, query[side]]));
      const asked = query;
      const [flows, all] = await Promise.all([readFlows(app, filter), app.get('cells', { limit: '500' })]);
      if (asked !== query) return;
      cells = new Map(all.items.map((cell) => [cell.cell, cell]));
      items = flows;
      drawAll();
    },
    delta(data) {
      if (data.projects || data.cells) later();
    },
    close() {
      clearTimeout(timer);
      clearInterval(redraw);
      observer.disconnect();
    },
  };
}
