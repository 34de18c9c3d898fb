/** Tables: of all rows at hand, and of a list that the server pages. No more than {@link ROWS} rows are in the page. */

import { h, keyed } from './dom.js';
import { number } from './words.js';

/** Rows of a page. */
export const ROWS = 60;

/** @typedef {{title: string, cell: function(Object): *, kind?: string}} Column `kind` is the class of its cells: `figure`, `short` (never broken), `wide`. */

function frame(caption, columns) {
  // The roles keep the table one for screen readers where a narrow page shows its rows as blocks.
  const body = h('tbody', { role: 'rowgroup' });
  const head = columns.map(({ title, kind }) => h('th', { scope: 'col', role: 'columnheader', class: kind }, title));
  const table = h(
    'table',
    { role: 'table' },
    h('caption', { class: 'hidden' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, head)),
    body,
  );
  return {
    body,
    scroller: h('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': caption }, table),
  };
}

function rowOf(columns, item) {
  const cellOf = ({ title, kind, cell }, at) =>
    h(
      at === 0 ? 'th' : 'td',
      { scope: at === 0 && 'row', role: at === 0 ? 'rowheader' : 'cell', class: kind, 'data-title': title },
      cell(item),
    );
  return h('tr', { role: 'row' }, columns.map(cellOf));
}

/** A table of rows that are all at hand; pages are drawn of them. `show(rows)` draws them. */
export function table({ caption, columns, key, empty }) {
  const { body, scroller } = frame(caption, columns);
  const nothing = h('p', { class: 'empty', hidden: true }, empty);
  const pages = h('div', { class: 'pager', hidden: true });
  scroller.hidden = true;
  const element = h('div', { class: 'list' }, scroller, nothing, pages);
  let [rows, from] = [[], 0];
  const drawPage = () => {
    from = Math.min(from, Math.max(0, Math.floor((rows.length - 1) / ROWS) * ROWS));
    keyed(body, rows.slice(from, from + ROWS), key, (item) => rowOf(columns, item));
    scroller.hidden = rows.length === 0;
    nothing.hidden = rows.length > 0;
    drawPager(pages, {
      from,
      shown: Math.min(ROWS, rows.length - from),
      remaining: Math.max(0, rows.length - from - ROWS),
      back: () => ((from -= ROWS), drawPage()),
      forth: () => ((from += ROWS), drawPage()),
    });
  };
  return { element, show: (items) => ((rows = items), drawPage()) };
}

function drawPager(host, { from, shown, remaining, back, forth }) {
  host.hidden = from === 0 && remaining === 0;
  const [first, last] = host.querySelectorAll('button');
  if (!first) {
    const step = (act) => ({ type: 'button', on: { click: () => host.steps[act]() } });
    host.append(
      h('button', step('back'), 'Previous'),
      h('span', { class: 'muted' }),
      h('button', step('forth'), 'Next'),
    );
  }
  host.steps = { back, forth };
  const [previous, next] = first ? [first, last] : host.querySelectorAll('button');
  previous.disabled = from === 0;
  next.disabled = remaining === 0;
  host.querySelector('span').textContent =
    `${number(from + 1)}–${number(from + shown)} of ${number(from + shown + remaining)}`;
}

/** A list that the server pages. `page(token)` asks for the page after `token`: `{items, continue, remaining}`.
 * `load()` reads the open page, `merge(rows, gone)` takes rows of the stream over that are on it. */
export function paged({ caption, columns, key, empty, page, onError }) {
  const { body, scroller } = frame(caption, columns);
  const nothing = h('p', { class: 'empty', hidden: true }, empty);
  const pages = h('div', { class: 'pager', hidden: true });
  scroller.hidden = true;
  const element = h('div', { class: 'list' }, scroller, nothing, pages);
  let tokens = [undefined];
  let [items, next, remaining] = [[], null, 0];
  const drawPage = () => {
    keyed(body, items, key, (item) => rowOf(columns, item));
    scroller.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
    drawPager(pages, {
      from: (tokens.length - 1) * ROWS,
      shown: items.length,
      remaining,
      back: () => step(() => tokens.pop()),
      forth: () => step(() => tokens.push(next)),
    });
  };
  const load = async () => {
    let answer;
    try {
      answer = await page(tokens.at(-1));
    } catch (error) {
      if (error.code !== 'Expired' || tokens.length === 1) throw error;
      tokens = [undefined];
      answer = await page(undefined);
    }
    items = answer.items.slice(0, ROWS);
    next = answer.continue ?? null;
    remaining = answer.remaining ?? 0;
    drawPage();
  };
  const step = (act) => {
    act();
    load().catch(onError);
  };
  return {
    element,
    load,
    isFirstPage: () => tokens.length === 1,
    restart: () => (tokens = [undefined]),
    merge(rows, gone = []) {
      const changed = new Map(rows.map((row) => [key(row), row]));
      const left = new Set(gone);
      if (!items.some((item) => changed.has(key(item)) || left.has(key(item)))) return;
      items = items.filter((item) => !left.has(key(item))).map((item) => changed.get(key(item)) ?? item);
      drawPage();
    },
    /** Puts new rows before the first page. */
    prepend(rows) {
      items = [...rows, ...items].slice(0, ROWS);
      drawPage();
    },
  };
}
