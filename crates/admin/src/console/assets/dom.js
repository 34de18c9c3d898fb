/**
 * Elements, made from text alone: nothing here parses markup.
 *
 * Hooks for tests: `data-view` on `<main>` (the name of the view), `data-row` on each row of a list (its key),
 * `data-state` on what has a state, `data-connection` (`opening`, `live`, `reconnecting`, `stale`) and `data-stale` on
 * `<body>`, and the ids `search`, `health`, `live`, `scheme`, `connection`, `notices`, `signin`, `keys`.
 */

const SVG = 'http://www.w3.org/2000/svg';

/** Control characters, and those that change the direction of text. */
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Text from outside with its control characters made visible, as `\u001b`. */
export const clean = (text) =>
  String(text ?? '').replace(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false && child !== '') element.append(child);
  }
  return element;
}

/** An HTML element. `properties.on` holds listeners, all else are attributes; `null`, `undefined` and `false` are left out. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** An SVG element; see {@link h}. */
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

/** Text from outside, isolated from the direction of the text around it. */
export const outside = (text, properties) => h('bdi', properties, clean(text));

const SHAPES = {
  ok: 'M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z',
  note: 'M8 2.5 13.5 8 8 13.5 2.5 8z',
  warn: 'M8 2.5 14 13H2z',
  bad: 'M3 3h10v10H3z',
  dead: 'M3.2 5.3 5.3 3.2 8 5.9l2.7-2.7 2.1 2.1L10.1 8l2.7 2.7-2.1 2.1L8 10.1l-2.7 2.7-2.1-2.1L5.9 8z',
  none: 'M8 3.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zm0 1.8a2.7 2.7 0 1 1 0 5.4a2.7 2.7 0 1 1 0-5.4z',
};

/** The path of a level's shape, in a box of 16 by 16. */
export const shapeOf = (level) => SHAPES[level] ?? SHAPES.none;

/** The shape of a level (`ok`, `note`, `warn`, `bad`, `dead` or `none`); the word beside it says the same. */
export const mark = (level) =>
  s('svg', { class: `mark ${level}`, viewBox: '0 0 16 16', 'aria-hidden': 'true' }, s('path', { d: shapeOf(level) }));

/** A shape with its word. */
export const badge = (level, word, state) =>
  h('span', { class: `badge ${level}`, 'data-state': state ?? word }, mark(level), outside(word));

const FOCUSABLE = 'a[href],button,input,select,summary,[tabindex]';

/** Calls `change`, and puts the focus that was inside `host` back on the element in the same place. */
function keepingFocus(host, change) {
  const active = document.activeElement;
  const place = host.contains(active) ? [...host.querySelectorAll(FOCUSABLE)].indexOf(active) : -1;
  const now = change() ?? host;
  if (place >= 0) now.querySelectorAll(FOCUSABLE)[place]?.focus({ preventScroll: true });
}

const drawn = new WeakMap();

/** Draws `host` anew from `data`, only if the data differ from those of the last time. */
export function draw(host, data, render) {
  const sign = JSON.stringify(data) ?? '';
  if (drawn.get(host) === sign) return;
  drawn.set(host, sign);
  keepingFocus(host, () => host.replaceChildren(...[render(data)].flat(Infinity).filter(Boolean)));
}

const lists = new WeakMap();

/** Makes the children of `parent` the rows of `items`: a row is made anew only if its item has changed, and moved only if
 * its place has. `keyOf` gives the stable key of an item, `render` its element. */
export function keyed(parent, items, keyOf, render) {
  const known = lists.get(parent) ?? new Map();
  const rows = new Map();
  let previous = null;
  for (const item of items) {
    const key = String(keyOf(item));
    if (rows.has(key)) continue;
    const sign = JSON.stringify(item);
    let row = known.get(key);
    if (row?.sign !== sign) {
      const node = render(item);
      node.dataset.row = clean(key);
      if (row) {
        const old = row.node;
        keepingFocus(old, () => (old.replaceWith(node), node));
      }
      row = { node, sign };
    }
    rows.set(key, row);
    const place = previous ? previous.nextSibling : parent.firstChild;
    if (place !== row.node) parent.insertBefore(row.node, place);
    previous = row.node;
  }
  while (previous ? previous.nextSibling : parent.firstChild)
    (previous ? previous.nextSibling : parent.firstChild).remove();
  lists.set(parent, rows);
}

/** A button that copies `text`. Where the browser gives no clipboard (plain HTTP) it selects the text in `source`. */
export function copyButton(text, source) {
  const button = h('button', { type: 'button', class: 'copy', 'aria-label': `Copy: ${clean(text)}` }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(source ?? button);
      button.textContent = 'Press Ctrl+C';
    }
    setTimeout(() => (button.textContent = 'Copy'), 2000);
  });
  return button;
}

const COMMAND =
  /(?:^|[:,] )((?:fedgate|kubectl) (?!.*?\b(?:an|each|shows)\b)[^;,]+?)(?= on the hub| in (?:the )?project|[;,]|$)/;

/** A next step: its sentence, and a button that copies its command, or the sentence if there is none. */
export function nextStep(text) {
  if (!text) return null;
  const command = COMMAND.exec(text)?.[1].trim();
  const words = h('span', { class: 'step' });
  const code = command ? h('code', {}, clean(command)) : null;
  if (code) {
    const at = text.indexOf(command);
    words.append(clean(text.slice(0, at)), code, clean(text.slice(at + command.length)));
  } else words.append(clean(text));
  return h(
    'p',
    { class: 'next' },
    h('span', { class: 'tag' }, 'next'),
    words,
    copyButton(command ?? text, code ?? words),
  );
}
