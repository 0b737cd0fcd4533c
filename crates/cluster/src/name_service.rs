//! The lookup of host names and users in a static program.
//!
//! glibc loads a module for each service that the system's `/etc/nsswitch.conf` names. The modules of a system with
//! another version of glibc can end a static program with a signal. The modules for files and DNS are part of the
//! program, so a static program uses only these. See `nss(5)`.

/// Makes a static program ignore `/etc/nsswitch.conf`: `/etc/hosts` and DNS give the addresses of hosts, and
/// `/etc/passwd` gives users. A program that loads glibc follows `/etc/nsswitch.conf`.
///
/// Call this before the first lookup, while the process has one thread.
pub fn use_built_in_name_services() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
    for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"services", c"files")] {
        configure(database, services);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", target_feature = "crt-static"))]
#[expect(unsafe_code, reason = "the standard library does not configure glibc")]
fn configure(database: &std::ffi::CStr, services: &std::ffi::CStr) {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        /// Part of `nss.h`. The result is not 0 if glibc knows no such database or service.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }
    // SAFETY: both texts end with a zero byte, and glibc copies what it keeps. No other thread looks a name up.
    let result = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    assert_eq!(result, 0, "glibc has the database {database:?}");
}
