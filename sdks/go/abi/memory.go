package abi

import (
	"runtime"
	"unsafe"
)

// passedIn pins the memory that the host passed to the current call. The bindings have only the addresses of this memory
// until they make slices of it.
var passedIn runtime.Pinner

// Unpin releases the memory in passedIn. Call Unpin after the bindings have made slices of this memory.
func Unpin() { passedIn.Unpin() }

// Allocate returns memory that does not move until the pinner releases it. The memory is aligned to 8 bytes.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// 64-bit words are aligned to 8 bytes. The garbage collector does not search them for pointers.
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(memory)
	return memory
}

// The host calls this function for the memory of each list that it passes to the component. A list never grows.
//
//go:wasmexport cabi_realloc
func reallocate(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if old != nil || oldSize != 0 {
		panic("the host grows a list")
	}
	return Allocate(&passedIn, size, align)
}
