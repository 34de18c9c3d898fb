//! Objects as a tenant writes them.

use serde_json::{Value, json};

/// What a tenant wishes: a Workload in words.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) name: String,
    /// Placements: name, city, count.
    pub(crate) places: Vec<(String, String, u64)>,
    pub(crate) policy: Option<String>,
    pub(crate) image: String,
    /// Ports of the container: name, number.
    pub(crate) ports: Vec<(String, u16)>,
    pub(crate) network: String,
    /// What may come in.
    pub(crate) ingress: Option<Value>,
    pub(crate) labels: Value,
    pub(crate) config_map: Option<String>,
    /// Settings of the rollout.
    pub(crate) rollout: Option<Value>,
}

impl Wish {
    /// So many Instances in DFW.
    pub(crate) fn new(name: &str, count: u64) -> Self {
        Self {
            name: name.to_owned(),
            places: vec![("us".to_owned(), "DFW".to_owned(), count)],
            policy: None,
            image: "shop/web:1.4.2".to_owned(),
            ports: vec![("http".to_owned(), 8080)],
            network: "default".to_owned(),
            ingress: None,
            labels: json!({"app": "storefront"}),
            config_map: None,
            rollout: None,
        }
    }

    /// So many more in that city.
    pub(crate) fn and_in(mut self, place: &str, city: &str, count: u64) -> Self {
        self.places.push((place.to_owned(), city.to_owned(), count));
        self
    }

    pub(crate) fn parallel(self) -> Self {
        self.policy("Parallel")
    }

    pub(crate) fn policy(mut self, policy: &str) -> Self {
        self.policy = Some(policy.to_owned());
        self
    }

    pub(crate) fn image(mut self, image: &str) -> Self {
        image.clone_into(&mut self.image);
        self
    }

    pub(crate) fn network(mut self, network: &str) -> Self {
        network.clone_into(&mut self.network);
        self
    }

    /// With these rules for what comes in.
    pub(crate) fn ingress(mut self, rules: Value) -> Self {
        self.ingress = Some(rules);
        self
    }

    pub(crate) fn ports(mut self, ports: &[(&str, u16)]) -> Self {
        self.ports = ports
            .iter()
            .map(|(name, port)| ((*name).to_owned(), *port))
            .collect();
        self
    }

    /// With these settings of the rollout.
    pub(crate) fn rollout(mut self, settings: Value) -> Self {
        self.rollout = Some(settings);
        self
    }

    /// With a `ConfigMap` mounted.
    pub(crate) fn config_map(mut self, name: &str) -> Self {
        self.config_map = Some(name.to_owned());
        self
    }

    /// The Workload.
    pub(crate) fn workload(&self) -> Value {
        let Self {
            name, policy, places, ..
        } = self;
        let placements: Vec<Value> = places
            .iter()
            .map(|(place, city, count)| {
                let mut scale = json!({"minReplicas": count});
                if let Some(policy) = policy {
                    scale["instanceManagementPolicy"] = json!(policy);
                }
                if let Some(rollout) = &self.rollout {
                    scale["rollout"] = rollout.clone();
                }
                json!({"name": place, "cityCodes": [city], "scaleSettings": scale})
            })
            .collect();
        json!({
            "metadata": {"name": name},
            "spec": {"template": self.template(), "placements": placements},
        })
    }

    /// The deployment of the first placement, as if a Workload of this UID had made it.
    pub(crate) fn deployment(&self, workload: &str) -> Value {
        let (place, city, count) = &self.places[0];
        json!({
            "metadata": {"name": format!("{}-{place}-{}", self.name, city.to_lowercase())},
            "spec": {
                "workloadRef": {"name": self.name, "uid": workload},
                "placementName": place, "cityCode": city,
                "scaleSettings": {"minReplicas": count, "instanceManagementPolicy": self.policy.as_deref().unwrap_or("OrderedReady")},
                "template": self.template(),
            },
        })
    }

    fn template(&self) -> Value {
        let ports: Vec<Value> = self
            .ports
            .iter()
            .map(|(name, port)| json!({"name": name, "port": port}))
            .collect();
        let mut container = json!({"name": "web", "image": self.image});
        if !ports.is_empty() {
            container["ports"] = json!(ports);
        }
        let mut spec = json!({
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [container]},
            },
            "networkInterfaces": [{"network": {"name": self.network}}],
        });
        if let Some(rules) = &self.ingress {
            spec["networkInterfaces"][0]["networkPolicy"] = json!({"ingress": rules});
        }
        if let Some(name) = &self.config_map {
            spec["volumes"] = json!([{"name": "settings", "configMap": {"name": name}}]);
            spec["runtime"]["sandbox"]["containers"][0]["volumeAttachments"] =
                json!([{"name": "settings", "mountPath": "/etc/settings"}]);
        }
        json!({"metadata": {"labels": self.labels}, "spec": spec})
    }
}
