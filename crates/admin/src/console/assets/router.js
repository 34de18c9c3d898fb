/** Addresses: the fragment holds all of a view's state. */

/** The views, by the first segment of their address. */
export const VIEWS = ['now', 'map', 'stuck', 'trace', 'cell', 'project', 'journal'];

const SEGMENTS = { trace: [0, 4], cell: [0, 1], project: [0, 1] };

/** @typedef {{view: string, path: string[], query: Object<string, string>, unknown?: string}} Route */

/** The route of a fragment. An unknown one leads to `now`, and `unknown` names it. @returns {Route} */
export function parse(fragment) {
  const text = fragment.replace(/^#/, '');
  if (text === '' || text === '/') return { view: 'now', path: [], query: {} };
  const [address, query = ''] = text.split('?');
  try {
    const [empty, view, ...path] = address.split('/').map(decodeURIComponent);
    const allowed = SEGMENTS[view] ?? [0];
    if (empty === '' && VIEWS.includes(view) && allowed.includes(path.length) && path.every(Boolean)) {
      return { view, path, query: Object.fromEntries([...new URLSearchParams(query)].filter(([, value]) => value)) };
    }
  } catch {
    // A malformed percent sign: unknown as well.
  }
  return { view: 'now', path: [], query: {}, unknown: text };
}

/** The address of a view. Empty parameters are left out. */
export function address(view, path = [], query = {}) {
  const parts = [view, ...path].map(encodeURIComponent).join('/');
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${parts}${search ? `?${search}` : ''}`;
}

/** The address of an object's trace; `null` if it is no object of a project. */
export function traceOf({ project, namespace, kind, name }) {
  return project && namespace && kind && name ? address('trace', [project, namespace, kind, name]) : null;
}
