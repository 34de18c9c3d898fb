/** The words, levels and figures of the console: each state has one word and one level, in every view. */

import { h, outside } from './dom.js';

/** Classes of stuck objects, the worst first: level, short word, and meaning. */
export const CLASSES = {
  plane: {
    level: 'dead',
    word: 'plane down',
    means: 'a plane does not answer, a project is refused, or a credential has expired',
  },
  right: { level: 'dead', word: 'right missing', means: 'fedgate lacks a permission' },
  brake: { level: 'bad', word: 'brake', means: 'fedgate deletes nothing until this is cleared' },
  quarantined: { level: 'bad', word: 'quarantined', means: 'a verdict holds the object' },
  refused: { level: 'bad', word: 'refused', means: 'the object cannot be federated as it is' },
  retrying: { level: 'warn', word: 'retrying', means: 'each attempt fails and is repeated' },
  undelivered: { level: 'warn', word: 'undelivered', means: 'not yet where it is to go' },
  waiting: { level: 'warn', word: 'waiting', means: 'failed, and waits for a change' },
  deleting: { level: 'note', word: 'deleting', means: 'its deletion lasts' },
  orphan: { level: 'note', word: 'orphan', means: 'on the hub without an origin' },
  unavailable: { level: 'warn', word: 'unavailable', means: 'the tenant’s or the cell’s matter' },
};

/** Levels, the worst first. */
export const LEVELS = ['dead', 'bad', 'warn', 'note', 'ok'];

/** The level of a class; `ok` without one. */
export const levelOf = (name) => (name ? (CLASSES[name]?.level ?? 'warn') : 'ok');

/** The word of a class. */
export const wordOf = (name) => (name ? (CLASSES[name]?.word ?? name) : 'well');

/** States of planes and cells: level and word. */
export const STATES = {
  connected: { level: 'ok', word: 'connected' },
  syncing: { level: 'note', word: 'syncing' },
  backoff: { level: 'dead', word: 'not answering' },
  unauthorized: { level: 'dead', word: 'unauthorized' },
  refused: { level: 'bad', word: 'refused' },
  ready: { level: 'ok', word: 'ready' },
  not_ready: { level: 'bad', word: 'not ready' },
  unlabelled: { level: 'warn', word: 'no city' },
  draining: { level: 'note', word: 'being drained' },
  leaving: { level: 'note', word: 'leaving' },
};

/** Level and word of a state. */
export const stateOf = (name) => STATES[name] ?? { level: 'none', word: name ?? 'unknown' };

/** The four stages of delivery, in the order of an object's way. */
export const STAGES = {
  project_to_hub: { word: 'to the hub', means: 'edits that the hub lacks' },
  hub_to_cell: { word: 'to the cells', means: 'copies that Karmada has not delivered' },
  hub_status_to_project: { word: 'status back', means: 'statuses that the project lacks' },
  writeback_to_projection: { word: 'Instances back', means: 'Instances that the project lacks' },
};

/** States of hops. */
export const HOPS = {
  ok: { level: 'ok', word: 'ok' },
  waiting: { level: 'warn', word: 'waiting' },
  broken: { level: 'dead', word: 'broken' },
  unseen: { level: 'none', word: 'unseen' },
};

const CAUSES = {
  refused: ['is refused: its kubeconfig is not usable', 'are refused: their kubeconfigs are not usable'],
  credential_expired: ['has an expired credential', 'have expired credentials'],
  unauthorized: ['rejects the credential', 'reject their credentials'],
  forbidden: ['forbids a watch', 'forbid a watch'],
  not_served: ['lacks the definitions', 'lack the definitions'],
  throttled: ['has too many requests', 'have too many requests'],
};
const SILENT = ['does not answer', 'do not answer'];

const BRAKES = {
  orphans: 'The garbage brake is on: too many copies lost their origin at once',
  projections: 'The brake keeps projections: the hub lost many write-backs at once',
  drift: 'Interpreters on the hub differ from ours',
};

function subject(plane, count) {
  if (plane === 'hub') return 'The hub';
  if (plane === 'cell') return 'The cell';
  return `${number(count)} ${plural(count, 'project')}`;
}

/** A sentence for a group of stuck objects or a reason of the health, without a full stop. */
export function sentence({ class: name, plane, word, count }) {
  const many = plane === 'project' && count !== 1 ? 1 : 0;
  if (name === 'plane') {
    const known = CAUSES[word];
    const cause = (known ?? SILENT)[many] + (known || word === 'unreachable' ? '' : ` (${clear(word)})`);
    return `${subject(plane, count)} ${cause}`;
  }
  if (name === 'right')
    return `fedgate may not ${word} ${plane === 'hub' ? 'on the hub' : `in ${number(count)} ${plural(count, plane)}`}`;
  if (name === 'brake') return BRAKES[word] ?? `The brake is on: ${clear(word)}`;
  const objects = `${number(count)} ${plural(count, 'object')}`;
  const is = count === 1 ? 'is' : 'are';
  if (name === 'undelivered') return `${objects} ${is} not delivered: ${STAGES[word]?.word ?? clear(word)}`;
  return `${objects} ${is} ${wordOf(name)}: ${clear(word)}`;
}

/** A word of the API with spaces for underscores. */
export const clear = (word) => String(word ?? '').replaceAll('_', ' ');

const NUMBERS = new Intl.NumberFormat('en-US');

/** A count with separators. */
export const number = (count) => NUMBERS.format(count ?? 0);

/** The noun in the number that a count asks for. */
export const plural = (count, noun) => (count === 1 ? noun : `${noun}s`);

/** A duration in seconds, in its largest unit. */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 172_800) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86_400)} d`;
}

const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** The time of day of an instant in milliseconds, in the reader's time zone. */
export const clock = (at) => CLOCK.format(at);

/** The time that ages are relative to: `asOf` of the last answer in milliseconds, moved on while the stream lives. */
let asOf = { at: Date.now(), received: performance.now(), runs: false };

/** Sets the time of the last answer, an RFC 3339 text. */
export function setAsOf(text) {
  const at = Date.parse(text);
  if (!Number.isNaN(at)) asOf = { at, received: performance.now(), runs: asOf.runs };
}

/** Lets ages move on (true), or stops them where they are. */
export function setClock(runs) {
  if (asOf.runs === runs) return;
  asOf = { at: now(), received: performance.now(), runs };
}

/** The present time of the replica in milliseconds. */
export const now = () => asOf.at + (asOf.runs ? performance.now() - asOf.received : 0);

const relative = (at, ahead) => (ahead ? `in ${duration((at - now()) / 1000)}` : duration((now() - at) / 1000));

function update(element) {
  const at = Date.parse(element.dateTime);
  const { prefix = '', suffix = '' } = element.dataset;
  const text = prefix + relative(at, at > now() + 1000) + suffix;
  if (element.textContent !== text) element.textContent = text;
}

/** An age that moves on; nothing without an instant. `options.prefix` and `suffix` stand around it; `options.atLeast` says that it may be older. */
export function age(instant, options = {}) {
  const at = Date.parse(instant ?? '');
  if (Number.isNaN(at)) return options.otherwise ?? null;
  const prefix = (options.prefix ?? '') + (options.atLeast ? 'at least ' : '');
  const element = h('time', {
    datetime: instant,
    title: new Date(at).toLocaleString('en-GB'),
    'data-prefix': prefix || null,
    'data-suffix': options.suffix,
  });
  update(element);
  return element;
}

/** Brings the ages below `root` up to date. */
export function tick(root) {
  for (const element of root.getElementsByTagName('time')) update(element);
}

/** True if an instant is more than `minutes` ago. */
export const isOlder = (instant, minutes) => Boolean(instant) && now() - Date.parse(instant) > minutes * 60_000;

/** `worst` of a row as a badge: its word and how long it has lasted. */
export function worstOf(worst) {
  return worst ? [outside(clear(worst.reason)), ' ', h('span', { class: 'muted' }, age(worst.since))] : null;
}

const classes = Object.keys(CLASSES);
/** The rank of a worst state; that of a cell is as a verdict's. */
export const severity = (worst) =>
  worst ? classes.indexOf(worst.state ? 'quarantined' : worst.class) : classes.length;

/** The worse of two worst states, by class and then by age. */
export function worse(a, b) {
  if (severity(a) !== severity(b)) return severity(a) < severity(b) ? a : b;
  return (a?.since ?? '~') <= (b?.since ?? '~') ? a : b;
}
