//! Threads for work that can wait: compiling components, filling instances.
//!
//! They run at a lower priority than the rest of the process. On a machine with few processors, a compiler that is as
//! important as the scheduling thread makes cycles many times as long.

use std::{io, thread};

/// Steps of niceness: the scheduling thread gets ten times the time of such a thread where both want one processor.
#[cfg(target_os = "linux")]
const NICE: libc::c_int = 10;

/// Runs `work` on a thread of its own that gives way to others.
///
/// # Errors
/// The system offers no more threads.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let start = move || {
        give_way();
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(start).map(drop)
}

/// On Linux, niceness belongs to a thread. Elsewhere it would slow the whole process down.
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
