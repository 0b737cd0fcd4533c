//! Control groups of version 1, which have one tree for memory and one tree for processors, and of version 2, which
//! have one tree.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// The beginning of the names of this program's groups. The id of the process that made the group follows.
const PREFIX: &str = "berth-confined-";

/// Makes a group with this number of bytes of memory and one processor, below the process's group. `own` is the
/// process's `/proc/self/cgroup`. Returns the folders to join, one for each tree.
///
/// # Errors
/// No tree of cgroups exists, or it may not be changed.
pub(crate) fn make(root: &Path, own: &str, memory: u64, id: u32) -> Result<Vec<PathBuf>> {
    let name = format!("{PREFIX}{id}");
    if root.join("cgroup.controllers").is_file() {
        let parent = parent(root, own, "")?;
        enable(&parent)?;
        let group = fresh(&parent, &name)?;
        set(&group, "memory.max", &memory.to_string())?;
        set(&group, "cpuset.cpus", &first_processor(&parent, "cpuset.cpus.effective")?)?;
        return Ok(vec![group]);
    }
    let tree = parent(&root.join("memory"), own, "memory")?;
    let memory_group = fresh(&tree, &name)?;
    set(&memory_group, "memory.limit_in_bytes", &memory.to_string())?;
    let tree = parent(&root.join("cpuset"), own, "cpuset")?;
    let cpu_group = fresh(&tree, &name)?;
    set(&cpu_group, "cpuset.cpus", &first_processor(&tree, "cpuset.cpus")?)?;
    set(&cpu_group, "cpuset.mems", get(&tree, "cpuset.mems")?.trim())?;
    Ok(vec![memory_group, cpu_group])
}

/// The folder of the process's current group. The path may be the host's if the process is in a container. The folder
/// is then the root.
fn parent(tree: &Path, own: &str, controller: &str) -> Result<PathBuf> {
    if !tree.is_dir() {
        bail!("there is no {}", tree.display());
    }
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|it| it == controller).then_some(path)
    });
    let folder = path.map(|path| tree.join(path.trim_start_matches('/'))).filter(|folder| folder.is_dir());
    Ok(folder.unwrap_or_else(|| tree.to_owned()))
}

/// Enables limits for the groups below this group.
fn enable(parent: &Path) -> Result<()> {
    let enabled = get(parent, "cgroup.subtree_control")?;
    for controller in ["memory", "cpuset"] {
        if !enabled.split_whitespace().any(|it| it == controller) {
            set(parent, "cgroup.subtree_control", &format!("+{controller}"))?;
        }
    }
    Ok(())
}

/// Creates a new folder. Folders of earlier runs are removed.
fn fresh(parent: &Path, name: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(parent).with_context(|| parent.display().to_string())?;
    for entry in entries.filter_map(Result::ok) {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            // A folder with processes cannot be removed, and stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
    let group = parent.join(name);
    match fs::create_dir(&group) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot create {}", group.display()))
        }
        Ok(()) | Err(_) => Ok(group),
    }
}

/// Reads a list such as `0-3,6`, which begins with `0`.
fn first_processor(parent: &Path, file: &str) -> Result<String> {
    let list = get(parent, file)?;
    let first = list.trim().split(['-', ',']).next().filter(|first| !first.is_empty());
    Ok(first.with_context(|| format!("{} names no processor", parent.join(file).display()))?.to_owned())
}

fn get(group: &Path, file: &str) -> Result<String> {
    let file = group.join(file);
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

fn set(group: &Path, file: &str, value: &str) -> Result<()> {
    let file = group.join(file);
    fs::write(&file, value).with_context(|| format!("cannot write {value} to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("berth-cgroup-{name}-{}", std::process::id()));
        for (file, text) in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
        root
    }

    #[test]
    fn groups_of_version_1_are_made_in_both_trees() {
        let root = tree("v1", &[("memory/a/b/x", ""), ("cpuset/cpuset.cpus", "2-3\n"), ("cpuset/cpuset.mems", "0\n")]);
        let groups = make(&root, "4:memory:/a/b\n3:cpuset,x:/\n0::/\n", 512, 7).expect("groups");
        assert_eq!(groups, [root.join("memory/a/b/berth-confined-7"), root.join("cpuset/berth-confined-7")]);
        let written = |file: &str| fs::read_to_string(root.join(file)).expect("written");
        assert_eq!(written("memory/a/b/berth-confined-7/memory.limit_in_bytes"), "512");
        assert_eq!(written("cpuset/berth-confined-7/cpuset.cpus"), "2");
        assert_eq!(written("cpuset/berth-confined-7/cpuset.mems"), "0");
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn a_group_of_version_2_is_made_below_the_own_one() {
        let files = [
            ("cgroup.controllers", "cpuset memory"),
            ("pod/cgroup.subtree_control", "memory"),
            ("pod/cpuset.cpus.effective", "1,3\n"),
        ];
        let root = tree("v2", &files);
        let groups = make(&root, "0::/pod\n", 512, 7).expect("a group");
        assert_eq!(groups, [root.join("pod/berth-confined-7")]);
        let written = |file: &str| fs::read_to_string(root.join("pod").join(file)).expect("written");
        assert_eq!(written("cgroup.subtree_control"), "+cpuset");
        assert_eq!(written("berth-confined-7/memory.max"), "512");
        assert_eq!(written("berth-confined-7/cpuset.cpus"), "1");
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn where_there_are_no_groups_it_is_said() {
        let root = tree("none", &[("x", "")]);
        let error = make(&root, "", 512, 7).expect_err("no tree").to_string();
        assert!(error.contains("there is no") && error.contains("memory"), "{error}");
        fs::remove_dir_all(root).expect("removed");
    }
}
