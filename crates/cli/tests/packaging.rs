//! The manifest for krew keeps krew's rules, and is of this version.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used)]

use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plugin {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    version: String,
    homepage: String,
    short_description: String,
    description: String,
    #[serde(default)]
    caveats: String,
    platforms: Vec<Platform>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    selector: Selector,
    uri: String,
    sha256: String,
    files: Vec<File>,
    bin: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    match_labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    from: String,
    to: String,
}

/// The faults of a manifest.
fn faults(text: &str) -> Vec<String> {
    let plugin: Plugin = match serde_saphyr::from_str(text) {
        Ok(plugin) => plugin,
        Err(error) => return vec![error.to_string()],
    };
    let Plugin {
        api_version,
        kind,
        metadata: Metadata { name },
        spec,
    } = plugin;
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: String| faults.extend((!holds).then_some(what));
    must(
        api_version == "krew.googlecontainertools.github.com/v1alpha2" && kind == "Plugin",
        format!("{api_version} {kind}"),
    );
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    must(
        name.chars().all(is_name)
            && !name.starts_with("kubectl")
            && !name.starts_with('-')
            && !name.ends_with('-'),
        format!("name {name}"),
    );
    must(
        spec.version == format!("v{}", env!("CARGO_PKG_VERSION")),
        format!("version {}", spec.version),
    );
    must(
        spec.homepage.starts_with("https://"),
        format!("homepage {}", spec.homepage),
    );
    let short = &spec.short_description;
    must(
        !short.is_empty() && short.len() <= 50 && !short.ends_with('.') && !short.contains('\n'),
        format!("shortDescription {short:?}"),
    );
    for line in spec.description.lines().chain(spec.caveats.lines()) {
        must(line.len() <= 80, format!("the line is too long: {line}"));
    }
    let mut seen = BTreeSet::new();
    for platform in &spec.platforms {
        let labels = &platform.selector.match_labels;
        let of = |key: &str| labels.get(key).cloned().unwrap_or_default();
        let (os, arch) = (of("os"), of("arch"));
        must(
            labels.len() == 2
                && ["linux", "darwin", "windows"].contains(&&*os)
                && ["amd64", "arm64"].contains(&&*arch),
            format!("selector {labels:?}"),
        );
        must(
            seen.insert((os.clone(), arch.clone())),
            format!("{os}/{arch} is there twice"),
        );
        let archive = format!("/{}/kubectl-compute-{os}-{arch}.tar.gz", spec.version);
        must(
            platform.uri.starts_with("https://") && platform.uri.ends_with(&archive),
            format!("uri {}", platform.uri),
        );
        must(
            platform.sha256.len() == 64
                && platform
                    .sha256
                    .chars()
                    .all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()),
            format!("sha256 {}", platform.sha256),
        );
        must(
            (platform.bin == "kubectl-compute.exe") == (os == "windows")
                && platform.bin.starts_with("kubectl-compute"),
            format!("bin {} on {os}", platform.bin),
        );
        let unpacked = |name: &str| {
            platform
                .files
                .iter()
                .any(|file| file.from == name && file.to == ".")
        };
        must(
            unpacked(&platform.bin) && unpacked("LICENSE"),
            format!("files of {os}/{arch}"),
        );
    }
    must(seen == released(), format!("platforms {seen:?}"));
    faults
}

/// The platforms that a release builds, in krew's words.
fn released() -> BTreeSet<(String, String)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/release/make.sh");
    let script = std::fs::read_to_string(script).unwrap();
    let targets = script.lines().find_map(|line| line.strip_prefix("TARGETS=("));
    let targets = targets.unwrap().trim_end_matches(')').split(' ');
    let of = |target: &str| {
        let arch = match target.split('-').next().unwrap() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let systems = ["linux", "darwin", "windows"];
        let os = systems.into_iter().find(|os| target.contains(os));
        (os.unwrap().to_owned(), arch.to_owned())
    };
    targets.map(of).collect()
}

fn manifest() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/krew/compute.yaml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_manifest_keeps_the_rules_of_krew() {
    assert_eq!(faults(&manifest()), [""; 0]);
}

#[test]
fn a_manifest_that_breaks_a_rule_is_refused() {
    for (right, wrong) in [
        ("name: compute", "name: Compute"),
        ("version: v", "version: "),
        ("homepage: https:", "homepage: http:"),
        ("edge cloud\n", "edge cloud, and of everywhere else too\n"),
        ("os: linux, arch: arm64", "os: linux, arch: amd64"),
        ("os: linux, arch: arm64", "os: darwin, arch: arm64"),
        ("bin: kubectl-compute", "bin: kubectl-compute.exe"),
        ("sha256: \"00", "sha256: \"0"),
        ("    bin:", "    binary:"),
        ("uri: https:", "uri: http:"),
    ] {
        let text = manifest();
        assert!(text.contains(right), "{right}");
        assert!(!faults(&text.replace(right, wrong)).is_empty(), "{wrong}");
    }
}

/// Two executables of one version differ by their revision.
#[test]
fn the_executable_says_its_version_and_revision_without_a_kubeconfig() {
    for flag in ["--version", "-V"] {
        let output = Command::new(env!("CARGO_BIN_EXE_kubectl-compute"))
            .arg(flag)
            .env_clear()
            .output()
            .unwrap();
        assert!(output.status.success());
        let (version, revision) = (env!("CARGO_PKG_VERSION"), env!("FEDGATE_BUILD_REVISION"));
        let wanted = format!("kubectl compute {version} ({revision})\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
    }
}
