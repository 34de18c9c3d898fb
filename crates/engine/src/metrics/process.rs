//! Figures of the process: what was built, and the memory that it may use.

use super::{Family, Metrics};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// The control groups of this process.
const OWN: &str = "/proc/self/cgroup";

/// Version, revision and compiler of the executable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Build {
    /// Version of the program.
    pub version: &'static str,
    /// Revision of its sources, or `unknown`.
    pub revision: &'static str,
    /// Version of the compiler.
    pub rustc: &'static str,
}

impl Metrics {
    /// Sets what was built.
    pub fn built(&self, build: Build) {
        let labels = [build.version, build.revision, build.rustc];
        self.set(Family::Build, &labels, true);
    }
}

/// Memory that this process may use, in bytes: the lowest limit of its control groups; infinite without a limit.
pub(super) fn memory_limit() -> f64 {
    let own = fs::read_to_string(OWN).unwrap_or_default();
    limit_below(Path::new(MOUNT), &own)
}

/// The lowest limit of the control groups in `own`, the text of [`OWN`], below this mount. In a container the mount shows
/// the container's own group alone, so a group that is not found is the root.
fn limit_below(mount: &Path, own: &str) -> f64 {
    let groups = own.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let group = group.trim_start_matches('/');
        match controllers {
            "" => Some((mount.to_owned(), group, "memory.max")),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some((mount.join("memory"), group, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = groups.flat_map(|(root, group, file)| {
        let own: PathBuf = root.join(group);
        let groups: Vec<PathBuf> = own
            .ancestors()
            .take_while(|folder| folder.starts_with(&root))
            .map(|folder| folder.join(file))
            .collect();
        groups
            .into_iter()
            .filter_map(|file| limit(&fs::read_to_string(file).ok()?))
    });
    limits.fold(f64::INFINITY, f64::min)
}

/// Version 1 writes a number near 2^63 where there is no limit, version 2 `max`.
fn limit(text: &str) -> Option<f64> {
    let bytes: u64 = text.trim().parse().ok()?;
    // A gauge is a floating-point number: exact up to 8 PiB.
    #[allow(clippy::cast_precision_loss)]
    (bytes < 1 << 60).then_some(bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)]
    fn the_lowest_limit_of_a_control_group_and_those_above_it_counts() {
        let mount = std::env::temp_dir().join(format!("fedgate-memory-limit-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = mount.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("memory.max", "max\n");
        write("pods/memory.max", "2048\n");
        write("pods/one/memory.max", "4096\n");
        assert_eq!(limit_below(&mount, "0::/pods/one\n"), 2_048.0);
        assert_eq!(limit_below(&mount, "0::/\n"), f64::INFINITY);
        assert_eq!(limit_below(&mount, "0::/elsewhere/in/the/host\n"), f64::INFINITY);
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/a/memory.limit_in_bytes", "1024\n");
        let own = "12:cpu,cpuacct:/a\n4:memory:/a\n1:name=systemd:/a\n";
        assert_eq!(limit_below(&mount, own), 1_024.0);
        assert_eq!(limit_below(&mount, "4:memory:/\n"), f64::INFINITY);
        write("memory.max", "512\n");
        assert_eq!(
            limit_below(&mount, "0::/elsewhere\n"),
            512.0,
            "a container sees its group as the root"
        );
        fs::remove_dir_all(mount).unwrap();
    }

    #[test]
    fn what_was_built_is_in_the_labels() {
        let metrics = Metrics::new().unwrap();
        metrics.built(Build {
            version: "1.2.3",
            revision: "abc",
            rustc: "1.95.0",
        });
        let text = metrics.render(&crate::metrics::Gauges::default()).unwrap();
        let line = "fedgate_build_info{revision=\"abc\",rustc=\"1.95.0\",version=\"1.2.3\"} 1\n";
        assert!(
            text.contains(line) && text.contains("fedgate_memory_limit_bytes "),
            "{text}"
        );
    }
}
