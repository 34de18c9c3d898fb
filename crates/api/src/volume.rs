//! Volumes of an Instance: disks, ConfigMaps and Secrets (contract: api.md §5).

use super::{
    meta::{EmbeddedMeta, NameReference},
    quantity::ResourceList,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A volume: exactly one of disk, ConfigMap and Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceVolume {
    /// Name that attachments use.
    pub name: String,
    /// A persistent disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The keys of a ConfigMap as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapVolume>,
    /// The keys of a Secret as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretVolume>,
}

/// A persistent disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Name of the device; absent means `persistent-disk-<index>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// The disk that is made.
    pub template: DiskTemplate,
}

/// The template of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskTemplate {
    /// Metadata of the disk.
    #[serde(default, skip_serializing_if = "EmbeddedMeta::is_empty")]
    pub metadata: EmbeddedMeta,
    /// What the disk is.
    pub spec: DiskSpec,
}

/// What a disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSpec {
    /// Kind of disk: `pd-standard`.
    #[serde(default = "standard_disk", rename = "type")]
    pub type_: String,
    /// Size of the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<DiskResources>,
    /// What is on the disk at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populator: Option<DiskPopulator>,
}

fn standard_disk() -> String {
    "pd-standard".to_owned()
}

impl Default for DiskSpec {
    fn default() -> Self {
        Self {
            type_: standard_disk(),
            resources: None,
            populator: None,
        }
    }
}

/// Size of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskResources {
    /// `storage`, in whole GiB.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
}

/// What is on a disk at first: an image or an empty file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskPopulator {
    /// A machine image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<NameReference>,
    /// An empty file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<DiskFilesystem>,
}

/// An empty file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskFilesystem {
    /// Kind of file system: `ext4`.
    #[serde(rename = "type")]
    pub type_: String,
}

/// The keys of a ConfigMap as files; core/v1 `ConfigMapVolumeSource`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapVolume {
    /// Name of the ConfigMap.
    #[serde(default)]
    pub name: String,
    /// Keys that become files; absent means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<KeyToPath>,
    /// Permission bits of the files; absent means 0644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
    /// Whether the ConfigMap or a key may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// The keys of a Secret as files; core/v1 `SecretVolumeSource`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolume {
    /// Name of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// Keys that become files; absent means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<KeyToPath>,
    /// Permission bits of the files; absent means 0644.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<i32>,
    /// Whether the Secret or a key may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
}

/// One key as a file; core/v1 `KeyToPath`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyToPath {
    /// The key.
    pub key: String,
    /// Relative path of the file, without `..`.
    pub path: String,
    /// Permission bits of the file; absent means `defaultMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<i32>,
}
