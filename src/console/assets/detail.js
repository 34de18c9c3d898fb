export function detailView(host) { return { title: 'Detail', topics: [], async load() {} }; }
