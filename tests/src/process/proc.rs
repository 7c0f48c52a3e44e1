//! What `/proc` says of processes.
//!
//! Must not be here: signals.

use std::fs;
use std::time::Duration;

use super::ProcessId;

/// User and system time of one line of `/proc/<pid>/stat`, whose unit is a hundredth of a second.
pub(super) fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The program's name, in parentheses, may hold spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 10))
}

/// Start time (ticks) and parent of one line of `/proc/<pid>/stat`; `None` for a zombie or a malformed line.
pub(super) fn parse_stat(stat: &str) -> Option<(u64, i32)> {
    // The second field is the name in brackets and may hold anything, brackets too.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    Some((fields.get(19)?.parse().ok()?, fields.get(1)?.parse().ok()?))
}

pub(super) fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

/// All processes with their parents.
pub(super) fn fetch_parents() -> Vec<(i32, i32)> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, parse_stat(&stat)?.1))
        })
        .collect()
}

/// All processes below `root`, found through their parents' ids.
pub(super) fn fetch_descendants(root: i32) -> Vec<ProcessId> {
    find_descendants(root, &fetch_parents())
        .into_iter()
        .filter_map(ProcessId::of)
        .collect()
}

pub(super) fn find_descendants(root: i32, parents: &[(i32, i32)]) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.split_off(1)
}
