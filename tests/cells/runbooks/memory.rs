//! A control group that limits the memory of one process.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const MOUNT: &str = "/sys/fs/cgroup";
const NAME: &str = "fedgate-runbooks";

/// See the module. Dropped, it gives the process back to the group that it came from.
pub(super) struct Group {
    pid: String,
    from: PathBuf,
    own: PathBuf,
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has ended is in no group.
        let _ = fs::write(self.from.join("cgroup.procs"), &self.pid);
        if let Err(error) = fs::remove_dir(&self.own) {
            eprintln!("{} is left behind: {error}", self.own.display());
        }
    }
}

/// The group of memory that a process is in, and the file of its limit.
fn group_of(pid: &str) -> io::Result<(PathBuf, &'static str)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let found = |version_1: bool| {
        groups.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            let group = group.trim_start_matches('/');
            match controllers {
                "memory" if version_1 => {
                    let folder = Path::new(MOUNT).join("memory").join(group);
                    Some((folder, "memory.limit_in_bytes"))
                }
                "" if !version_1 => Some((Path::new(MOUNT).join(group), "memory.max")),
                _ => None,
            }
        })
    };
    let group = found(true).or_else(|| found(false));
    group.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the process is in no group of memory"))
}

impl Group {
    /// Limits the memory of a process. The memory that it has already is not counted, so that it lives on at a limit that is close.
    pub(super) fn around(pid: &str, bytes: u64) -> io::Result<Self> {
        let (from, limit) = group_of(pid)?;
        let own = from.join(NAME);
        fs::create_dir(&own)?;
        let group = Self {
            pid: pid.to_owned(),
            from,
            own,
        };
        fs::write(group.own.join(limit), bytes.to_string())?;
        fs::write(group.own.join("cgroup.procs"), pid)?;
        Ok(group)
    }
}
