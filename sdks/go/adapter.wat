;; Implements WASI preview 1 inside a component, without calls to the host.
;;
;; The scheduler has no WASI, because a plugin has no files and no clock. Go's runtime nevertheless calls WASI when it
;; starts, prints or collects garbage. This adapter answers these calls in the same way in each run. There are no files,
;; arguments or environment variables. Written output is lost. Each read of the clock advances the time by a microsecond.
;; A sleep ends at once. Random numbers come from a fixed seed. An exit traps.
;;
;; The adapter is WebAssembly text and not Rust, because its state is in globals: an adapter shares the memory of its module
;; and has no memory of its own. `wasm-tools component new --adapt wasi_snapshot_preview1=adapter.wat` reads this file.
;;
;; Error codes: 0 is success, 8 is a bad file descriptor, 52 is a missing function.
(module
  (import "env" "memory" (memory 0))

  ;; The time in nanoseconds since 1970. It starts at 2000-01-01.
  (global $clock (mut i64) (i64.const 946684800000000000))
  (global $seed (mut i64) (i64.const 0x6265727468))

  ;; There are no arguments and no environment variables.
  (func $none (param $count i32) (param $size i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $size) (i32.const 0))
    (i32.const 0))
  (export "args_sizes_get" (func $none))
  (export "environ_sizes_get" (func $none))
  (func $nothing (param i32 i32) (result i32) (i32.const 0))
  (export "args_get" (func $nothing))
  (export "environ_get" (func $nothing))

  (func (export "clock_res_get") (param $id i32) (param $resolution i32) (result i32)
    (i64.store (local.get $resolution) (i64.const 1000))
    (i32.const 0))

  (func (export "clock_time_get") (param $id i32) (param $precision i64) (param $time i32) (result i32)
    (global.set $clock (i64.add (global.get $clock) (i64.const 1000)))
    (i64.store (local.get $time) (global.get $clock))
    (i32.const 0))

  ;; Every subscription is ready at once. A subscription to a clock advances the clock to the end of its wait.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $n i32) (param $n_events i32) (result i32)
    (local $left i32)
    (local $timeout i64)
    (local.set $left (local.get $n))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (i64.store (local.get $out) (i64.load (local.get $in)))
        (i64.store offset=8 (local.get $out) (i64.const 0))
        (i64.store offset=16 (local.get $out) (i64.const 0))
        (i64.store offset=24 (local.get $out) (i64.const 0))
        (i32.store8 offset=10 (local.get $out) (i32.load8_u offset=8 (local.get $in)))
        (if (i32.eqz (i32.load8_u offset=8 (local.get $in)))
          (then
            (local.set $timeout (i64.load offset=24 (local.get $in)))
            ;; Flag 1: the time is absolute.
            (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $in)) (i32.const 1)))
              (then (local.set $timeout (i64.add (local.get $timeout) (global.get $clock)))))
            (if (i64.gt_u (local.get $timeout) (global.get $clock))
              (then (global.set $clock (local.get $timeout))))))
        (local.set $in (i32.add (local.get $in) (i32.const 48)))
        (local.set $out (i32.add (local.get $out) (i32.const 32)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $n_events) (local.get $n))
    (i32.const 0))

  ;; splitmix64: each step yields one byte.
  (func (export "random_get") (param $at i32) (param $n i32) (result i32)
    (local $value i64)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (global.set $seed (i64.add (global.get $seed) (i64.const 0x9e3779b97f4a7c15)))
        (local.set $value (global.get $seed))
        (local.set $value
          (i64.mul
            (i64.xor (local.get $value) (i64.shr_u (local.get $value) (i64.const 30)))
            (i64.const 0xbf58476d1ce4e5b9)))
        (local.set $value
          (i64.mul
            (i64.xor (local.get $value) (i64.shr_u (local.get $value) (i64.const 27)))
            (i64.const 0x94d049bb133111eb)))
        (i64.store8 (local.get $at) (i64.shr_u (local.get $value) (i64.const 56)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (i32.const 0))

  (func (export "proc_exit") (param $code i32)
    (unreachable))
  (func (export "proc_raise") (param $signal i32) (result i32)
    (unreachable))
  (func (export "sched_yield") (result i32)
    (i32.const 0))

  ;; Written output is lost. All bytes of the buffers count as written.
  (func $write (param $buffers i32) (param $n i32) (param $written i32) (result i32)
    (local $sum i32)
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $n)))
        (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $buffers))))
        (local.set $buffers (i32.add (local.get $buffers) (i32.const 8)))
        (local.set $n (i32.sub (local.get $n) (i32.const 1)))
        (br $next)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))
  (func (export "fd_write") (param $fd i32) (param $buffers i32) (param $n i32) (param $written i32) (result i32)
    (call $write (local.get $buffers) (local.get $n) (local.get $written)))
  (func (export "fd_pwrite") (param $fd i32) (param $buffers i32) (param $n i32) (param $offset i64) (param $written i32)
    (result i32)
    (call $write (local.get $buffers) (local.get $n) (local.get $written)))
  ;; Standard input is empty.
  (func (export "fd_read") (param $fd i32) (param $buffers i32) (param $n i32) (param $read i32) (result i32)
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))

  ;; Standard input, output and error are character devices. No other descriptor is open.
  (func (export "fd_fdstat_get") (param $fd i32) (param $stat i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2))
      (then (return (i32.const 8))))
    (i64.store (local.get $stat) (i64.const 2))
    (i64.store offset=8 (local.get $stat) (i64.const -1))
    (i64.store offset=16 (local.get $stat) (i64.const 0))
    (i32.const 0))
  (func (export "fd_fdstat_set_flags") (param i32 i32) (result i32) (i32.const 0))
  (func (export "fd_close") (param i32) (result i32) (i32.const 0))
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_prestat_dir_name") (param i32 i32 i32) (result i32) (i32.const 8))

  ;; The functions that need a file or a socket.
  (func (export "fd_advise") (param i32 i64 i64 i32) (result i32) (i32.const 52))
  (func (export "fd_allocate") (param i32 i64 i64) (result i32) (i32.const 52))
  (func (export "fd_datasync") (param i32) (result i32) (i32.const 52))
  (func (export "fd_fdstat_set_rights") (param i32 i64 i64) (result i32) (i32.const 52))
  (func (export "fd_filestat_get") (param i32 i32) (result i32) (i32.const 52))
  (func (export "fd_filestat_set_size") (param i32 i64) (result i32) (i32.const 52))
  (func (export "fd_filestat_set_times") (param i32 i64 i64 i32) (result i32) (i32.const 52))
  (func (export "fd_pread") (param i32 i32 i32 i64 i32) (result i32) (i32.const 52))
  (func (export "fd_readdir") (param i32 i32 i32 i64 i32) (result i32) (i32.const 52))
  (func (export "fd_renumber") (param i32 i32) (result i32) (i32.const 52))
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 52))
  (func (export "fd_sync") (param i32) (result i32) (i32.const 52))
  (func (export "fd_tell") (param i32 i32) (result i32) (i32.const 52))
  (func (export "path_create_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_get") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_filestat_set_times") (param i32 i32 i32 i32 i64 i64 i32) (result i32) (i32.const 52))
  (func (export "path_link") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_open") (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32) (i32.const 52))
  (func (export "path_readlink") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_remove_directory") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_rename") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_symlink") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "path_unlink_file") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_accept") (param i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_recv") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_send") (param i32 i32 i32 i32 i32) (result i32) (i32.const 52))
  (func (export "sock_shutdown") (param i32 i32) (result i32) (i32.const 52)))
