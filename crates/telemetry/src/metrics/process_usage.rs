//! The figures of this process, which all client libraries of Prometheus name `process_*`. The kernel's files contain
//! them (`proc(5)`). A figure that cannot be read keeps its last value.

use std::fs;

use prometheus::{IntCounterVec, IntGaugeVec};
use rustix::param::{clock_ticks_per_second, page_size};

use super::{
    raise,
    registration::{Registration, Stability},
};

/// The metrics of the process.
#[derive(Debug)]
pub(super) struct ProcessUsage {
    cpu_seconds: IntCounterVec,
    virtual_bytes: IntGaugeVec,
    resident_bytes: IntGaugeVec,
    threads: IntGaugeVec,
    open_files: IntGaugeVec,
    max_files: IntGaugeVec,
}

impl ProcessUsage {
    /// Registers the metrics. The start of the process is set once: the kernel's time of the machine's start follows
    /// the clock, and a start that changes would look like a restart.
    pub(super) fn new(add: &mut Registration) -> Self {
        let own = Stability::None;
        let help = "Start time of the process in seconds since 1970.";
        let start_seconds = add.gauge(own, "process_start_time_seconds", help, &[]);
        if let Some(seconds) = start() {
            set(&start_seconds, seconds);
        }
        let cpu = "Processor time of the process in user and in kernel mode, in seconds.";
        Self {
            cpu_seconds: add.counter(own, "process_cpu_seconds_total", cpu, &[]),
            virtual_bytes: add.gauge(own, "process_virtual_memory_bytes", "Virtual memory in bytes.", &[]),
            resident_bytes: add.gauge(own, "process_resident_memory_bytes", "Resident memory in bytes.", &[]),
            threads: add.gauge(own, "process_threads", "Threads of the process.", &[]),
            open_files: add.gauge(own, "process_open_fds", "Open file descriptors.", &[]),
            max_files: add.gauge(own, "process_max_fds", "Maximum number of open file descriptors.", &[]),
        }
    }

    /// Reads the figures that change.
    pub(super) fn read(&self) {
        if let Some(stat) = Stat::of_this_process() {
            raise(&self.cpu_seconds, &[], stat.cpu_ticks / clock_ticks_per_second());
            set(&self.virtual_bytes, stat.virtual_bytes);
            set(&self.resident_bytes, stat.resident_pages * page_size() as u64);
            set(&self.threads, stat.threads);
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The descriptor of this directory itself is not counted.
            set(&self.open_files, (open.count() as u64).saturating_sub(1));
        }
        if let Some(max) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(max_files) {
            set(&self.max_files, max);
        }
    }
}

/// The figures of `/proc/self/stat` that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    /// The processor time in user and in kernel mode, in clock ticks.
    cpu_ticks: u64,
    threads: u64,
    /// The time from the machine's start to the start of the process, in clock ticks.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn of_this_process() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses. The name may contain spaces and parentheses.
        let (_, from_third) = text.rsplit_once(')')?;
        let fields: Vec<&str> = from_third.split_ascii_whitespace().collect();
        // `proc(5)` counts fields from 1.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// The start of the process in seconds since 1970.
fn start() -> Option<u64> {
    let machine = fs::read_to_string("/proc/stat").ok()?;
    let machine: u64 = machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(machine + Stat::of_this_process()?.start_ticks / clock_ticks_per_second())
}

/// The soft limit of open files in the text of `/proc/self/limits`; `None` if there is no limit.
fn max_files(limits: &str) -> Option<u64> {
    let values = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    values.split_ascii_whitespace().next()?.parse().ok()
}

fn set(gauge: &IntGaugeVec, value: u64) {
    gauge.with_label_values::<&str>(&[]).set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_may_look_like_other_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 12 0 9000 5000000 321 1024\n";
        let stat =
            Stat { cpu_ticks: 400, threads: 12, start_ticks: 9000, virtual_bytes: 5_000_000, resident_pages: 321 };
        assert_eq!(Stat::parse(text), Some(stat));
    }

    #[test]
    fn the_soft_limit_of_open_files_is_shown() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             63303                63303                processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(max_files(limits), Some(1024));
        assert_eq!(max_files("Max open files            unlimited            unlimited            files     \n"), None);
    }

    #[test]
    fn the_figures_of_this_process_can_be_read() {
        let stat = Stat::of_this_process().expect("the kernel shows the process");
        assert!(stat.threads > 0 && stat.resident_pages > 0 && stat.virtual_bytes > 0, "{stat:?}");
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_secs();
        assert!(start().is_some_and(|start| start > 0 && start <= now + 1), "{:?}", start());
    }
}
