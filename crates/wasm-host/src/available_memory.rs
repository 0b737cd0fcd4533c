//! The memory that this process can have: the limit of its cgroup, of version 1 or 2, or the memory of the machine.
//!
//! A limit of an outer cgroup holds for all groups within it, so the smallest limit on the way to the root counts. A
//! container without a cgroup namespace reads paths of its host, which do not exist in the container. In the container,
//! its own group is the root of the tree.

use std::{
    fs,
    path::{Component, Path},
};

/// The memory in bytes; `None` if the system does not report this amount. `root` is the root of the file system.
pub(crate) fn available_memory(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    groups.lines().filter_map(|group| group_limit(root, group)).chain(machine_memory(root)).min()
}

/// The limit for one line of `/proc/self/cgroup`: an id, controllers and a path, separated by colons.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let (_, group) = line.split_once(':')?;
    let (controllers, path) = group.split_once(':')?;
    let trees = root.join("sys/fs/cgroup");
    let (tree, file) = match controllers {
        "" => (trees, "memory.max"),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            (trees.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let path = Path::new(path.trim_start_matches('/'));
    // The path of a process that was moved out of its cgroup namespace begins with `..`.
    let is_within = path.components().all(|component| matches!(component, Component::Normal(_)));
    let groups = path.ancestors().filter(|_| is_within).chain([Path::new("")]);
    groups.filter_map(|group| limit_in(&tree.join(group).join(file))).min()
}

/// The limit in a file. `None` for `max`, and for a group without the file, such as the root of version 2.
fn limit_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The value of `MemTotal` in `/proc/meminfo`, which is in KiB.
fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal:        4096 kB\nMemFree:  100 kB\n");
    const MACHINE_BYTES: u64 = 4 << 20;

    fn available(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        available_memory(root.path())
    }

    #[test]
    fn the_smallest_limit_of_nested_groups_of_version_2_counts() {
        let own = ("proc/self/cgroup", "0::/pods/pod/container\n");
        let inner = ("sys/fs/cgroup/pods/pod/container/memory.max", "2000000\n");
        let outer = ("sys/fs/cgroup/pods/memory.max", "1000000\n");
        let none = ("sys/fs/cgroup/pods/pod/memory.max", "max\n");
        assert_eq!(available(&[MACHINE, own, inner, none]), Some(2_000_000));
        assert_eq!(available(&[MACHINE, own, inner, none, outer]), Some(1_000_000));
        assert_eq!(available(&[MACHINE, own, none]), Some(MACHINE_BYTES), "no group has a limit");
    }

    #[test]
    fn the_smallest_limit_of_nested_groups_of_version_1_counts() {
        let own = ("proc/self/cgroup", "3:cpuset:/other\n2:hugetlb,memory:/pods/pod\n0::/\n");
        let inner = ("sys/fs/cgroup/memory/pods/pod/memory.limit_in_bytes", "2000000\n");
        let outer = ("sys/fs/cgroup/memory/pods/memory.limit_in_bytes", "1000000\n");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(available(&[MACHINE, own, inner, none]), Some(2_000_000));
        assert_eq!(available(&[MACHINE, own, inner, none, outer]), Some(1_000_000));
        assert_eq!(available(&[MACHINE, own, none]), Some(MACHINE_BYTES), "the limit is larger than the machine");
    }

    #[test]
    fn a_container_that_reads_a_path_of_its_host_has_the_limit_of_the_root() {
        let version_1 = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
        assert_eq!(available(&[MACHINE, ("proc/self/cgroup", "2:memory:/kubepods/x\n"), version_1]), Some(1_000_000));
        let version_2 = ("sys/fs/cgroup/memory.max", "1000000\n");
        assert_eq!(available(&[MACHINE, ("proc/self/cgroup", "0::/../x\n"), version_2]), Some(1_000_000));
    }

    #[test]
    fn where_nothing_says_how_much_there_is_no_answer() {
        assert_eq!(available(&[]), None);
        assert_eq!(available(&[("proc/self/cgroup", "x\n0::\n"), ("proc/meminfo", "MemTotal: many\n")]), None);
    }
}
