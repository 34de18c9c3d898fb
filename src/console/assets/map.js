export function mapView(host) { return { title: 'Map', topics: [], async load() {} }; }
