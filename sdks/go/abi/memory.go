package abi

import (
	"runtime"
	"unsafe"
)

// passedIn keeps what the host passed to the call under way: Go knows of it by numbers only until the bindings have made
// slices of it.
var passedIn runtime.Pinner

// Unpin is called when these slices are made.
func Unpin() { passedIn.Unpin() }

// Allocate gives memory that stays where it is until the pinner lets it go. Its alignment is at most 8.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	if size == 0 {
		return nil
	}
	// Words are aligned to 8 bytes. The collector looks for no pointers in them.
	memory := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(memory)
	return memory
}

// The host asks for memory before it passes a list in. A list never grows.
//
//go:wasmexport cabi_realloc
func reallocate(old unsafe.Pointer, oldSize, align, size uintptr) unsafe.Pointer {
	if old != nil || oldSize != 0 {
		panic("the host grows a list")
	}
	return Allocate(&passedIn, size, align)
}
