//! The priorities of threads for the processor. The scheduling thread runs promptly. Threads that compile components or
//! fill instances run when there is time.
//!
//! On a machine with few processors, scheduling cycles take many times as long next to a compiler of the same priority.
//! Only Linux has priorities for single threads. On other systems, a priority would apply to the whole process.

use std::{cell::Cell, io, thread};

/// The niceness of background threads. If the scheduling thread and a background thread want one processor, the
/// scheduling thread gets ten times the time.
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 10;

/// The shortest time slice that Linux grants, in nanoseconds.
#[cfg(target_os = "linux")]
const SHORT_SLICE: u64 = 100_000;

thread_local! {
    static IS_SCHEDULING: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread the scheduling thread. The system wakes this thread promptly. Every pod waits for this
/// thread, so the limits for components are tighter on it.
pub fn begin_scheduling() {
    IS_SCHEDULING.set(true);
    wake_promptly();
}

/// Whether the calling thread is the scheduling thread.
#[must_use]
pub fn is_scheduling() -> bool {
    IS_SCHEDULING.get()
}

/// Runs `work` on a new thread with low priority.
///
/// # Errors
/// The system cannot start more threads.
pub fn spawn_background(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    start(thread::Builder::new().name(name.to_owned()), work)
}

/// [`spawn_background`] with a stack of `stack_size` bytes.
///
/// # Errors
/// The system cannot start more threads.
pub fn spawn_background_with_stack(
    name: &str,
    stack_size: usize,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start(thread::Builder::new().name(name.to_owned()).stack_size(stack_size), work)
}

fn start(thread: thread::Builder, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let start = move || {
        give_way();
        work();
    };
    thread.spawn(start).map(drop)
}

#[cfg(target_os = "linux")]
fn give_way() {
    #[expect(unsafe_code, reason = "the standard library knows no priorities")]
    // SAFETY: the call takes and returns plain numbers; 0 is the calling thread. A refusal changes nothing.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

/// Asks the system to run the calling thread promptly once it is woken, even if another thread has not used up its time
/// slice.
///
/// From Linux 6.12 on, a thread that asks for short slices is preferred over threads with longer slices whenever its
/// share of the time allows it. The share does not grow. Older versions ignore the request. See `sched_setattr(2)` and
/// the documentation of the EEVDF scheduler.
#[cfg(target_os = "linux")]
fn wake_promptly() {
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default(),
        sched_policy: libc::SCHED_OTHER.unsigned_abs(),
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: SHORT_SLICE,
        sched_deadline: 0,
        sched_period: 0,
    };
    #[expect(unsafe_code, reason = "the standard library knows no time slices")]
    // SAFETY: the kernel reads as many bytes of `attributes` as its `size` says; 0 is the calling thread. A refusal
    // changes nothing.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

#[cfg(not(target_os = "linux"))]
fn wake_promptly() {}
