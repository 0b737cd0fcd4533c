//! The resources that a process has used, from /proc. Figures that the kernel does not report are missing.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Processor time of the calling thread.
#[must_use]
pub fn cpu_of_this_thread() -> Option<Duration> {
    schedstat(Path::new("/proc/thread-self/schedstat"))
}

/// Processor time of the threads of a process (`self`, or its id), added up by name. Threads that have ended are
/// missing.
#[must_use]
pub fn cpu_by_thread(process: &str) -> BTreeMap<String, Duration> {
    let mut threads = BTreeMap::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return threads };
    for task in tasks.flatten().map(|entry| entry.path()) {
        let name = fs::read_to_string(task.join("comm"));
        // The thread may have ended in the meantime.
        if let (Ok(name), Some(cpu)) = (name, schedstat(&task.join("schedstat"))) {
            let name = name.trim().trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-');
            *threads.entry(name.to_owned()).or_default() += cpu;
        }
    }
    threads
}

fn schedstat(path: &Path) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}

/// The most memory that a process (`self`, or its id) had resident, in bytes.
#[must_use]
pub fn peak_memory(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}

/// Resets [`peak_memory`] of this process. If the kernel refuses the reset, the figure is too large.
pub fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}
