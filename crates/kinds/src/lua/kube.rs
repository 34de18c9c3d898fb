//! The library that a script loads with `require("kube")`.
//!
//! Source of names and results: karmada-io/karmada `luavm/kube.go`, `pkg/util/helper/{binding,pod}.go`,
//! `pkg/util/resource.go`.

use super::{
    convert,
    quantity::{Notation, Quantity},
};
use mlua::{Lua, MultiValue, Table, Value as LuaValue, Variadic};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Creates a table with the four functions.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    library.raw_set(
        "resourceAdd",
        lua.create_function(|_, parts: Variadic<LuaValue>| {
            let mut sum = Quantity::default();
            for part in &*parts {
                sum = sum.plus(quantity(part)?);
            }
            Ok(sum.text())
        })?,
    )?;
    library.raw_set(
        "getResourceQuantity",
        lua.create_function(|_, args: Variadic<LuaValue>| {
            let [value] = &args[..] else {
                return Err(mlua::Error::runtime(
                    "getResourceQuantity only accepts one argument",
                ));
            };
            let number = quantity(value)?.approximate();
            if number < 0.0 {
                return Err(mlua::Error::runtime(
                    "int approximation unexpectedly returned a negative value",
                ));
            }
            Ok(number)
        })?,
    )?;
    library.raw_set(
        "accuratePodRequirements",
        lua.create_function(|lua, args: MultiValue| {
            let args: Vec<LuaValue> = args.into_iter().collect();
            let [template] = &args[..] else {
                return Err(mlua::Error::runtime(
                    "getPodRequirements only accepts one argument",
                ));
            };
            convert::to_lua(lua, &requirements(&pod_template(template)?)?)
        })?,
    )?;
    library.raw_set(
        "getPodDependencies",
        lua.create_function(|lua, args: MultiValue| {
            let args: Vec<LuaValue> = args.into_iter().collect();
            let [template, namespace] = &args[..] else {
                return Err(mlua::Error::runtime(
                    "getPodDependencies only accepts two argument",
                ));
            };
            let namespace = match namespace {
                LuaValue::Nil => "default".to_owned(),
                LuaValue::String(text) => text.to_string_lossy(),
                LuaValue::Integer(number) => number.to_string(),
                LuaValue::Number(number) => number.to_string(),
                other => return Err(wrong_type(other)),
            };
            convert::to_lua(lua, &dependencies(&pod_template(template)?, &namespace))
        })?,
    )?;
    Ok(library)
}

fn wrong_type(value: &LuaValue) -> mlua::Error {
    mlua::Error::runtime(format!(
        "bad argument (string expected, got {})",
        value.type_name()
    ))
}

fn quantity(value: &LuaValue) -> mlua::Result<Quantity> {
    match value {
        LuaValue::Nil => Ok(Quantity::default()),
        LuaValue::String(text) => read_quantity(&text.to_string_lossy()),
        other => Err(wrong_type(other)),
    }
}

fn read_quantity(text: &str) -> mlua::Result<Quantity> {
    Quantity::parse(text).ok_or_else(|| mlua::Error::runtime(format!("cannot parse '{text}' as a quantity")))
}

/// Converts the argument to JSON, without empty tables.
fn pod_template(value: &LuaValue) -> mlua::Result<Value> {
    if !matches!(value, LuaValue::Table(_)) {
        return Err(mlua::Error::runtime(format!(
            "bad argument #1 (table expected, got {})",
            value.type_name()
        )));
    }
    let broken = |error: super::LuaError| {
        mlua::Error::runtime(format!("fail to convert lua value to a pod template: {error}"))
    };
    let mut template = convert::to_json(value).map_err(broken)?;
    convert::settle_empties(&mut template, &[]).map_err(broken)?;
    Ok(template)
}

/// The items of a list; no items if the field is absent.
fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}

/// The requirements of a replica: `nodeClaim` and `resourceRequest`, or null if there are none.
fn requirements(template: &Value) -> mlua::Result<Value> {
    let spec = &template["spec"];
    let mut claim = Map::new();
    let affinity = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    for (field, value) in [
        ("hardNodeAffinity", affinity),
        ("nodeSelector", &spec["nodeSelector"]),
        ("tolerations", &spec["tolerations"]),
    ] {
        if !value.is_null() {
            claim.insert(field.to_owned(), value.clone());
        }
    }

    let mut total: BTreeMap<String, i128> = BTreeMap::new();
    for container in list(spec, "containers") {
        for (name, amount) in requests(container)? {
            *total.entry(name).or_default() += amount;
        }
    }
    for container in list(spec, "initContainers") {
        for (name, amount) in requests(container)? {
            let most = total.entry(name).or_default();
            *most = amount.max(*most);
        }
    }
    for (name, amount) in amounts(&spec["overhead"])? {
        *total.entry(name).or_default() += amount;
    }
    let request: Map<String, Value> = total
        .into_iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| {
            let quantity = match name.as_str() {
                "cpu" => Quantity::from_millis(amount),
                "memory" | "ephemeral-storage" => Quantity::from_units(amount, Notation::Binary),
                name if name.starts_with("hugepages-") => Quantity::from_units(amount, Notation::Binary),
                _ => Quantity::from_units(amount, Notation::Decimal),
            };
            (name, Value::String(quantity.text()))
        })
        .collect();

    let mut result = Map::new();
    if !claim.is_empty() {
        result.insert("nodeClaim".to_owned(), Value::Object(claim));
    }
    if !request.is_empty() {
        result.insert("resourceRequest".to_owned(), Value::Object(request));
    }
    Ok(if result.is_empty() {
        Value::Null
    } else {
        Value::Object(result)
    })
}

/// The requests of a container; a limit replaces a missing request.
fn requests(container: &Value) -> mlua::Result<BTreeMap<String, i128>> {
    let mut found = amounts(&container["resources"]["limits"])?;
    found.extend(amounts(&container["resources"]["requests"])?);
    Ok(found)
}

/// Resources by name: thousandths of CPUs, units of all others; names that a replica cannot request are skipped.
fn amounts(resources: &Value) -> mlua::Result<BTreeMap<String, i128>> {
    let mut found = BTreeMap::new();
    for (name, value) in resources.as_object().into_iter().flatten() {
        let scalar =
            name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-");
        if scalar || matches!(name.as_str(), "cpu" | "memory" | "pods" | "ephemeral-storage") {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let quantity = read_quantity(&text)?;
            found.insert(
                name.clone(),
                if name == "cpu" {
                    quantity.millis()
                } else {
                    quantity.units()
                },
            );
        }
    }
    Ok(found)
}

/// Adds a name that exists and is not empty.
fn put<'a>(names: &mut BTreeSet<&'a str>, name: &'a Value) {
    if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
        names.insert(name);
    }
}

/// Config maps, secrets, service account and volume claims that a Pod uses. Within a kind Karmada's order is random,
/// this order is by name.
fn dependencies(template: &Value, namespace: &str) -> Value {
    let spec = &template["spec"];
    let mut found: [BTreeSet<&str>; 4] = Default::default();
    let [maps, secrets, accounts, claims] = &mut found;
    for secret in list(spec, "imagePullSecrets") {
        put(secrets, &secret["name"]);
    }
    for container in ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|group| list(spec, group))
    {
        for source in list(container, "envFrom") {
            put(maps, &source["configMapRef"]["name"]);
            put(secrets, &source["secretRef"]["name"]);
        }
        for variable in list(container, "env") {
            put(maps, &variable["valueFrom"]["configMapKeyRef"]["name"]);
            put(secrets, &variable["valueFrom"]["secretKeyRef"]["name"]);
        }
    }
    for volume in list(spec, "volumes") {
        put(maps, &volume["configMap"]["name"]);
        put(secrets, &volume["secret"]["secretName"]);
        put(claims, &volume["persistentVolumeClaim"]["claimName"]);
        for driver in [
            "cephfs",
            "cinder",
            "flexVolume",
            "rbd",
            "scaleIO",
            "iscsi",
            "storageos",
        ] {
            put(secrets, &volume[driver]["secretRef"]["name"]);
        }
        put(secrets, &volume["azureFile"]["secretName"]);
        put(secrets, &volume["csi"]["nodePublishSecretRef"]["name"]);
        for source in list(&volume["projected"], "sources") {
            put(maps, &source["configMap"]["name"]);
            put(secrets, &source["secret"]["name"]);
        }
    }
    if spec["serviceAccountName"] != "default" {
        put(accounts, &spec["serviceAccountName"]);
    }
    let kinds = ["ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"];
    let objects = kinds.iter().zip(&found).flat_map(|(kind, names)| {
        names
            .iter()
            .map(move |name| json!({"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name}))
    });
    let objects: Vec<Value> = objects.collect();
    // Go encodes a nil slice as null.
    if objects.is_empty() {
        Value::Null
    } else {
        Value::Array(objects)
    }
}
