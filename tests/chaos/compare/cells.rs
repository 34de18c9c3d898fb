//! The cells: delivered where it belongs and nowhere else, with all Instances, each written back.

use super::{Findings, at, has_data, hub::HUB, text};
use crate::{
    snapshot::CELLS,
    support::{
        annotation,
        kinds::{CONFIG_MAP, DEPLOYMENT, INSTANCE, NAMESPACE, SECRET},
        label, uid,
    },
    wanted::SOURCES,
};
use fedgate_api::{keys, names};
use serde_json::{Value, json};

/// Namespaces of tenants on cells.
fn of_tenant(namespace: &str) -> bool {
    namespace.starts_with("ns-")
}

impl Findings<'_> {
    pub(super) fn cells(&mut self) {
        let all = self.all;
        for (at, copy) in all.all(HUB, &DEPLOYMENT) {
            for (cell, city) in CELLS {
                if copy["spec"]["cityCode"] == city
                    && let Some(delivered) = self.present(all, cell, &DEPLOYMENT, &at.2, &at.3)
                {
                    self.delivered(cell, copy, delivered);
                }
            }
        }
        for (cell, city) in CELLS {
            for (at, delivered) in all.all(cell, &DEPLOYMENT) {
                let copy = all.get(HUB, &DEPLOYMENT, &at.2, &at.3);
                if copy.is_none_or(|copy| copy["spec"]["cityCode"] != city) {
                    self.surplus(at, "no copy has this city", delivered);
                }
            }
            self.left_at(cell, city);
            self.written(cell);
        }
    }

    fn delivered(&mut self, cell: &str, copy: &Value, delivered: &Value) {
        let (ns, name) = (
            text(copy, "/metadata/namespace"),
            text(copy, "/metadata/name").to_owned(),
        );
        let at = at(cell, &DEPLOYMENT, ns, &name);
        self.same(&at, "spec", &copy["spec"], &delivered["spec"]);
        let (expected, found) = (
            annotation(copy, keys::SOURCE_GENERATION),
            annotation(delivered, keys::SOURCE_GENERATION),
        );
        self.same(&at, "source-generation", &json!(expected), &json!(found));
        let scale = delivered["spec"]["scaleSettings"]["minReplicas"]
            .as_u64()
            .unwrap_or_default();
        let own = |instance: &&Value| {
            instance["metadata"]["ownerReferences"][0]["uid"] == delivered["metadata"]["uid"]
        };
        let has = self.all.within(cell, &INSTANCE, ns).map(|(_, instance)| instance);
        let count = has.filter(own).count() as u64;
        if count != scale {
            self.add(&at, format!("{scale} Instances"), count.to_string());
        }
        let ready = delivered["status"]["readyReplicas"].as_u64().unwrap_or_default();
        if ready != scale {
            self.add(&at, format!("{scale} Instances ready"), ready.to_string());
        }
        if has_data(copy) {
            for (kind, name) in SOURCES {
                let kind = if kind == "Secret" { &SECRET } else { &CONFIG_MAP };
                let Some(companion) = self.all.get(HUB, kind, ns, name) else {
                    continue;
                };
                if let Some(arrived) = self.present(self.all, cell, kind, ns, name) {
                    let at = super::at(cell, kind, ns, name);
                    self.same(&at, "data", &companion["data"], &arrived["data"]);
                }
            }
        }
    }

    /// Reports Namespaces and objects of tenants that must not be at the cell.
    fn left_at(&mut self, cell: &str, city: &str) {
        let all = self.all;
        for (at, namespace) in all.all(cell, &NAMESPACE).filter(|(at, _)| of_tenant(&at.3)) {
            let on_hub = all.get(HUB, &NAMESPACE, "", &at.3);
            let set = on_hub.and_then(|namespace| label(namespace, keys::CITIES));
            let here = set.and_then(names::cities_of_set);
            let belongs = here.is_some_and(|cities| cities.iter().any(|code| code.as_str() == city));
            if !belongs {
                self.surplus(at, "its city set has not this city", namespace);
            }
        }
        for kind in [&CONFIG_MAP, &SECRET] {
            for (at, object) in all.all(cell, kind).filter(|(at, _)| of_tenant(&at.2)) {
                let ours = label(object, keys::REFERENCED_DATA).is_some();
                let used = all
                    .within(cell, &DEPLOYMENT, &at.2)
                    .any(|(_, deployment)| has_data(deployment));
                if ours && !used {
                    self.surplus(at, "no deployment here references it", object);
                }
            }
        }
    }

    /// Each Instance of the cell is written back, and nothing else is under its name.
    fn written(&mut self, cell: &str) {
        let all = self.all;
        for (at, instance) in all.all(cell, &INSTANCE) {
            let written = all.get(HUB, &INSTANCE, &at.2, &at.3);
            let same = written.is_some_and(|written| {
                annotation(written, keys::INSTANCE_UID) == Some(uid(instance))
                    && written["spec"] == instance["spec"]
                    && written["status"] == instance["status"]
            });
            if !same {
                let found = crate::support::plane::brief(written);
                self.add(at, "is written back as it is", found);
            }
        }
        for (at, written) in all.all(HUB, &INSTANCE) {
            let mine = label(written, keys::CELL) == Some(cell);
            if mine && all.get(cell, &INSTANCE, &at.2, &at.3).is_none() {
                self.surplus(at, "its Instance is gone", written);
            }
        }
    }
}
