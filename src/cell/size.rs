//! How large Instances are (contract: cell.md §5, §9; api.md §5).

use crate::api::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Thousandths of a CPU.
    pub millicores: i64,
    /// Memory in MiB, rounded up.
    pub mebibytes: i64,
}

/// Sizes of the known instance types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(BTreeMap<String, Size>);

impl Default for Sizes {
    /// The types that the contract knows.
    fn default() -> Self {
        let standard = Size {
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

impl Size {
    /// The size with so much of each; `None` unless both are more than nothing.
    pub fn of(cpu: &Quantity, memory: &Quantity) -> Option<Self> {
        Some(Self {
            millicores: amount(cpu, NANOS_A_MILLICORE)?,
            mebibytes: amount(memory, NANOS_A_MEBIBYTE)?,
        })
    }
}

/// The size in a list of resources; `None` unless both are there.
fn of_list(list: &Value) -> Option<Size> {
    let quantity = |name: &str| serde_json::from_value(list.get(name)?.clone()).ok();
    Size::of(&quantity("cpu")?, &quantity("memory")?)
}

impl Sizes {
    /// Takes in another type, or another size of one.
    pub fn insert(&mut self, instance_type: &str, size: Size) {
        self.0.insert(instance_type.to_owned(), size);
    }

    /// The size of an Instance as a whole, of its spec: its own requests, or its type's. `None` for an unknown type.
    pub fn of_instance(&self, spec: &Value) -> Option<Size> {
        let resources = &spec["runtime"]["resources"];
        of_list(&resources["requests"]).or_else(|| self.0.get(resources["instanceType"].as_str()?).copied())
    }

    /// What quota is asked for: the sum of its containers' limits if each has both, or the Instance's size.
    pub fn of_claim(&self, spec: &Value) -> Option<Size> {
        let containers = spec["runtime"]["sandbox"]["containers"].as_array();
        let limits = containers
            .filter(|containers| !containers.is_empty())?
            .iter()
            .map(|container| of_list(&container["resources"]["limits"]))
            .collect::<Option<Vec<Size>>>();
        let Some(limits) = limits else {
            return self.of_instance(spec);
        };
        let sum = |part: fn(&Size) -> i64| limits.iter().map(part).fold(0, i64::saturating_add);
        Some(Size {
            millicores: sum(|size| size.millicores),
            mebibytes: sum(|size| size.mebibytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    fn size(millicores: i64, mebibytes: i64) -> Size {
        Size {
            millicores,
            mebibytes,
        }
    }

    #[test]
    fn limits_of_all_containers_come_before_requests_and_these_before_the_type() {
        let sizes = Sizes::default();
        let known = "datumcloud/d1-standard-2";
        let both = json!({"cpu": "250m", "memory": "64Mi"});
        let requests = json!({"cpu": 2, "memory": "1Gi"});
        for (spec, expected) in [
            (
                spec(known, &Value::Null, &[both.clone(), both.clone()]),
                Some(size(500, 128)),
            ),
            (
                spec(known, &requests, &[both.clone(), json!({"cpu": 1})]),
                Some(size(2000, 1024)),
            ),
            (
                spec(known, &json!({"cpu": 2}), &[Value::Null]),
                Some(size(1000, 2048)),
            ),
            (spec("other", &Value::Null, &[Value::Null]), None),
            (spec("other", &requests, &[Value::Null]), Some(size(2000, 1024))),
        ] {
            assert_eq!(sizes.of_claim(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn what_is_no_whole_unit_is_rounded_up() {
        let odd = json!({"cpu": "0.0001", "memory": 1});
        assert_eq!(
            Sizes::default().of_claim(&spec("x", &Value::Null, &[odd])),
            Some(size(1, 1))
        );
    }
}
