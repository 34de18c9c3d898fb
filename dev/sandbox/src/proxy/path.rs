//! Which paths are behind the proxy of a Cluster.

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/";
const PROXY: &str = "proxy";

/// The Cluster whose proxy a path leads through, and the path behind it.
pub(super) fn through(path: &str) -> Option<(&str, &str)> {
    let (cluster, rest) = path.strip_prefix(CLUSTERS)?.split_once('/')?;
    let behind = rest.strip_prefix(PROXY)?;
    match behind {
        "" => Some((cluster, "/")),
        _ => behind.starts_with('/').then_some((cluster, behind)),
    }
}

#[cfg(test)]
mod tests {
    use super::through;

    #[test]
    fn only_the_proxy_of_a_cluster_leads_to_a_member() {
        let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters";
        let behind = |rest: &str| through(&format!("{clusters}{rest}")).map(|(a, b)| format!("{a} {b}"));
        for (rest, found) in [
            ("/dfw-1/proxy/api/v1/pods", Some("dfw-1 /api/v1/pods")),
            ("/dfw-1/proxy", Some("dfw-1 /")),
            ("/dfw-1/proxy/", Some("dfw-1 /")),
            ("/dfw-1/proxying", None),
            ("/dfw-1/status", None),
            ("/proxy", None),
            ("", None),
        ] {
            assert_eq!(behind(rest).as_deref(), found, "{rest}");
        }
        assert_eq!(through("/api/v1/namespaces/a/pods/b/proxy/x"), None);
    }
}
