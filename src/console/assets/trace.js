export function traceView(host) { return { title: 'Trace', topics: [], async load() {} }; }
