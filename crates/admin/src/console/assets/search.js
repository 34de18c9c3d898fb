/** Search: projects and cells by a part of their name, and an object by `project namespace/name`. */

import { clean, h, mark, outside } from './dom.js';
import { address } from './router.js';
import { levelOf } from './words.js';

const byId = (id) => document.getElementById(id);

/** Objects of the kinds that a `project namespace/name` may be. */
const KINDS = ['workloads', 'workloaddeployments', 'instances'];

let cellNames = null;
let searching = null;

async function find(app, text) {
  searching?.abort();
  searching = new AbortController();
  const object = /^(\S+)\s+([^\s/]+)\/(\S+)$/.exec(text);
  if (object) {
    const [, project, namespace, name] = object;
    return KINDS.map((kind) => ({
      href: address('trace', [project, namespace, kind, name]),
      kind: `trace ${kind}`,
      name: `${namespace}/${name}`,
    }));
  }
  const { signal } = searching;
  cellNames ??= (await app.getIfServed('cells', { limit: '500' }, signal)).items.map(({ cell, city }) => ({
    cell,
    city,
  }));
  const lower = text.toLowerCase();
  const cells = cellNames
    .filter(({ cell, city }) => cell.toLowerCase().includes(lower) || city?.toLowerCase() === lower)
    .slice(0, 6);
  const projects =
    text.length > 64 ? { items: [] } : await app.getIfServed('projects', { q: text, limit: '8' }, signal);
  return [
    ...cells.map(({ cell, city }) => ({ href: address('cell', [cell]), kind: 'cell', name: cell, more: city })),
    ...projects.items.map(({ project, worst }) => ({
      href: address('project', [project]),
      kind: 'project',
      name: project,
      level: levelOf(worst?.class),
    })),
  ];
}

/** Closes the list of what was found. */
export function closeFound() {
  const input = byId('search');
  byId('found').hidden = true;
  input.setAttribute('aria-expanded', 'false');
  input.removeAttribute('aria-activedescendant');
}

function showFound(found) {
  const options = found.map((item, index) =>
    h(
      'a',
      { id: `found-${index}`, role: 'option', 'aria-selected': 'false', tabindex: '-1', href: item.href },
      item.level && mark(item.level),
      outside(item.name, { class: 'strong' }),
      h('span', { class: 'muted' }, item.kind, item.more ? ` in ${clean(item.more)}` : ''),
    ),
  );
  byId('found').replaceChildren(
    ...(options.length > 0 ? options : [h('p', { class: 'muted' }, 'No project or cell has this in its name.')]),
  );
  byId('found').hidden = false;
  byId('search').setAttribute('aria-expanded', 'true');
  if (options.length > 0) choose(0);
}

function choose(index) {
  const options = [...byId('found').querySelectorAll('[role=option]')];
  options.forEach((option, at) => option.setAttribute('aria-selected', String(at === index)));
  byId('search').setAttribute('aria-activedescendant', `found-${index}`);
  options[index]?.scrollIntoView({ block: 'nearest' });
}

/** Lets the search answer. `report` takes an error over. */
export function startSearch(app, report) {
  const input = byId('search');
  let timer = 0;
  const look = async () => {
    const text = input.value.trim();
    if (!text) return closeFound();
    try {
      const found = await find(app, text);
      if (input.value.trim() === text) showFound(found);
    } catch (error) {
      if (error.name !== 'AbortError') report(error);
    }
    return undefined;
  };
  input.addEventListener('focus', () => (cellNames = null));
  input.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(look, 150);
  });
  input.addEventListener('keydown', (event) => {
    const options = [...byId('found').querySelectorAll('[role=option]')];
    const at = options.findIndex((option) => option.getAttribute('aria-selected') === 'true');
    if (event.key === 'Escape') {
      input.value = '';
      closeFound();
      input.blur();
    } else if (event.key === 'Enter' && !byId('found').hidden && options[at]) {
      event.preventDefault();
      location.hash = options[at].getAttribute('href');
      input.value = '';
      closeFound();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      if (options.length > 0) choose((at + (event.key === 'ArrowDown' ? 1 : options.length - 1)) % options.length);
    }
  });
  input.addEventListener('focusout', (event) => {
    if (!byId('found').contains(event.relatedTarget)) closeFound();
  });
}
