//! Sizes of Instances (contract: cell.md §5, §9; api.md §5). The quota claim and the Pod are made from the same
//! [`Footprint`]: no container runs without a claim.

use fedgate_api::Quantity;
use fedgate_engine::object::entries;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceSize {
    /// Thousandths of a CPU.
    pub millicores: i64,
    /// Memory in MiB, rounded up.
    pub mebibytes: i64,
}

/// Sizes of the known instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceTypes(BTreeMap<String, InstanceSize>);

impl Default for InstanceTypes {
    /// The types of the contract.
    fn default() -> Self {
        let standard = InstanceSize {
            millicores: 1000,
            mebibytes: 2048,
        };
        let names = ["datumcloud/d1-standard-2", "datumcloud-d1-standard-2"];
        Self(names.map(|name| (name.to_owned(), standard)).into())
    }
}

const NANOS_A_MILLICORE: i128 = 1_000_000;
const NANOS_A_MEBIBYTE: i128 = 1_048_576 * 1_000_000_000;

fn amount(quantity: &Quantity, unit: i128) -> Option<i64> {
    let nanos = quantity.nanos().filter(|nanos| *nanos > 0)?;
    i64::try_from((nanos + unit - 1) / unit).ok()
}

impl InstanceSize {
    /// A size of these amounts; `None` unless both are positive.
    pub fn of(cpu: &Quantity, memory: &Quantity) -> Option<Self> {
        Some(Self {
            millicores: amount(cpu, NANOS_A_MILLICORE)?,
            mebibytes: amount(memory, NANOS_A_MEBIBYTE)?,
        })
    }
}

/// Resources of an Instance.
#[derive(Debug, Clone, PartialEq)]
pub struct Footprint {
    /// The total, which is claimed.
    pub size: InstanceSize,
    /// The limits of its containers, which add up to at most the total.
    pub limits: Vec<Value>,
}

/// The reason why an Instance has no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Unsized {
    /// The field in the Instance's spec, e.g. `runtime.resources.instanceType`.
    pub path: String,
    /// The fault and the next step.
    pub problem: String,
}

/// The only resources that a container may have limits of, because quota counts these: name, unit and suffix of the unit.
const COUNTED: [(&str, i128, &str); 2] = [
    ("cpu", NANOS_A_MILLICORE, "m"),
    ("memory", NANOS_A_MEBIBYTE, "Mi"),
];

/// The size in a list of resources; `None` unless both are there.
fn of_list(list: &Value) -> Option<InstanceSize> {
    let quantity = |name: &str| serde_json::from_value(list.get(name)?.clone()).ok();
    InstanceSize::of(&quantity("cpu")?, &quantity("memory")?)
}

/// The limits of a container.
fn limits(container: &Value) -> &Value {
    &container["resources"]["limits"]
}

/// The limit of a container, if it has one.
fn limit(container: &Value, resource: &str, unit: i128, path: &str) -> Result<Option<i64>, Unsized> {
    let written = &limits(container)[resource];
    if written.is_null() {
        return Ok(None);
    }
    let quantity: Option<Quantity> = serde_json::from_value(written.clone()).ok();
    let amount = quantity.and_then(|quantity| amount(&quantity, unit));
    amount.map(Some).ok_or_else(|| Unsized {
        path: format!("{path}.resources.limits"),
        problem: format!("{resource} is not more than 0; correct it or leave it out"),
    })
}

impl InstanceTypes {
    /// Adds a type, or changes the size of one.
    pub fn insert(&mut self, instance_type: &str, size: InstanceSize) {
        self.0.insert(instance_type.to_owned(), size);
    }

    /// The size of a whole Instance by its spec: its own requests, or those of its type.
    fn of_instance(&self, spec: &Value) -> Result<InstanceSize, Unsized> {
        let resources = &spec["runtime"]["resources"];
        let name = resources["instanceType"].as_str().unwrap_or_default();
        let known = self.0.get(name).ok_or_else(|| Unsized {
            path: "runtime.resources.instanceType".to_owned(),
            problem: format!(
                "{name} is not known at this cell; use a type that is, or give the cell its size (--instance-type)"
            ),
        })?;
        Ok(of_list(&resources["requests"]).unwrap_or(*known))
    }

    /// The resources of an Instance. A container has its own limits; the rest of the Instance's size is shared
    /// evenly by the containers without limits.
    pub fn footprint(&self, spec: &Value) -> Result<Footprint, Unsized> {
        let whole = self.of_instance(spec)?;
        let containers = entries(&spec["runtime"]["sandbox"]["containers"]);
        let path = |n: usize| format!("runtime.sandbox.containers[{n}]");
        for (n, container) in containers.iter().enumerate() {
            let mut named = limits(container).as_object().into_iter().flat_map(Map::keys);
            if let Some(other) = named.find(|name| COUNTED.iter().all(|(counted, ..)| name != counted)) {
                return Err(Unsized {
                    path: format!("{}.resources.limits", path(n)),
                    problem: format!("{other} is not counted by quota; only cpu and memory are"),
                });
            }
        }
        let mut size = whole;
        let mut all = vec![Map::new(); containers.len()];
        let totals = [&mut size.millicores, &mut size.mebibytes];
        for ((resource, unit, suffix), total) in COUNTED.into_iter().zip(totals) {
            let own = containers.iter().enumerate();
            let own = own
                .map(|(n, container)| limit(container, resource, unit, &path(n)))
                .collect::<Result<Vec<Option<i64>>, Unsized>>()?;
            let taken = own.iter().flatten().copied().fold(0, i64::saturating_add);
            let without = i64::try_from(own.iter().filter(|own| own.is_none()).count()).unwrap_or(i64::MAX);
            let left = total.saturating_sub(taken);
            if without == 0 && !own.is_empty() {
                *total = taken;
            } else if left < without {
                return Err(Unsized {
                    path: "runtime.sandbox.containers".to_owned(),
                    problem: format!(
                        "the limits of some leave no {resource} for the others; give each a limit, or lower them"
                    ),
                });
            }
            for (n, own) in own.iter().enumerate() {
                let value = match own {
                    Some(_) => limits(&containers[n])[resource].clone(),
                    None => json!(format!("{}{}", left / without.max(1), suffix)),
                };
                all[n].insert(resource.to_owned(), value);
            }
        }
        Ok(Footprint {
            size,
            limits: all.into_iter().map(Value::Object).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(instance_type: &str, requests: &Value, limits: &[Value]) -> Value {
        let containers: Vec<Value> = limits
            .iter()
            .map(|l| json!({"resources": {"limits": l}}))
            .collect();
        json!({"runtime": {
            "resources": {"instanceType": instance_type, "requests": requests},
            "sandbox": {"containers": containers},
        }})
    }

    fn size(millicores: i64, mebibytes: i64) -> InstanceSize {
        InstanceSize {
            millicores,
            mebibytes,
        }
    }

    const KNOWN: &str = "datumcloud/d1-standard-2";

    #[test]
    fn what_is_claimed_is_what_the_containers_may_take() {
        let sizes = InstanceTypes::default();
        let both = json!({"cpu": "250m", "memory": "64Mi"});
        let requests = json!({"cpu": 2, "memory": "1Gi"});
        let none = Value::Null;
        for (requests, limits, expected) in [
            (&none, vec![both.clone(), both.clone()], size(500, 128)),
            (
                &none,
                vec![json!({"cpu": 64, "memory": "1Ti"})],
                size(64_000, 1 << 20),
            ),
            (&requests, vec![both.clone(), json!({"cpu": 1})], size(1250, 1024)),
            (&requests, vec![none.clone(), none.clone()], size(2000, 1024)),
            (&json!({"cpu": 2}), vec![none.clone()], size(1000, 2048)),
            (&none, vec![json!({"cpu": 8})], size(8000, 2048)),
            (&none, vec![], size(1000, 2048)),
        ] {
            let spec = spec(KNOWN, requests, &limits);
            let footprint = sizes.footprint(&spec).unwrap();
            assert_eq!(footprint.size, expected, "{spec}");
            let sum = |resource: &str, unit: i128| -> i64 {
                let all = footprint.limits.iter();
                all.map(|of| {
                    let quantity: Quantity = serde_json::from_value(of[resource].clone()).unwrap();
                    amount(&quantity, unit).unwrap()
                })
                .sum()
            };
            if !limits.is_empty() {
                assert_eq!(
                    size(sum("cpu", NANOS_A_MILLICORE), sum("memory", NANOS_A_MEBIBYTE)),
                    expected,
                    "{spec}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_size_says_why() {
        let none = Value::Null;
        for (instance_type, limits, expected) in [
            (
                "other",
                vec![none.clone()],
                "runtime.resources.instanceType: other is not known",
            ),
            (
                KNOWN,
                vec![json!({"cpu": 1}), none.clone()],
                "runtime.sandbox.containers: the limits of some leave no cpu for the others",
            ),
            (
                KNOWN,
                vec![json!({"ephemeral-storage": "1Ti"})],
                "runtime.sandbox.containers[0].resources.limits: ephemeral-storage is not counted",
            ),
            (
                KNOWN,
                vec![none, json!({"memory": "much"})],
                "runtime.sandbox.containers[1].resources.limits: memory is not more than 0",
            ),
        ] {
            let requests = json!({"cpu": 1, "memory": "1Gi"});
            let error = InstanceTypes::default()
                .footprint(&spec(instance_type, &requests, &limits))
                .unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn what_is_no_whole_unit_is_rounded_up() {
        let odd = json!({"cpu": "0.0001", "memory": 1});
        let footprint = InstanceTypes::default().footprint(&spec(KNOWN, &Value::Null, &[odd]));
        assert_eq!(footprint.unwrap().size, size(1, 1));
    }
}
