//! The number of allocations of each thread. Counting costs a nanosecond for each allocation, so `berth` itself does
//! not count.

use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
};

use mimalloc::MiMalloc;

thread_local! {
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// The allocator of `berth`, with a count.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of allocations that this thread has made so far, including calls that grow or shrink an allocation.
pub(crate) fn made_by_this_thread() -> u64 {
    MADE.get()
}

fn count() {
    MADE.set(MADE.get() + 1);
}

#[expect(unsafe_code, reason = "another allocator does everything")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { MiMalloc.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}
