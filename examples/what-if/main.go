// Command what-if asks Berth's scheduler, as an autoscaler would, which node groups take 40 pods, and how many nodes of each group.
// The scheduler has a plugin that the autoscaler does not know: NodeMetadata, in the folder that the argument names.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../crates/libberth/include
#cgo LDFLAGS: -lberth
#include <stdlib.h>
#include <libberth.h>
*/
import "C"

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"example.com/what-if/answer"
)

//go:embed cluster.yaml
var cluster string

//go:embed question.json
var question string

func main() {
	if len(os.Args) != 2 {
		fail(errors.New("usage: what-if PLUGINS-DIR"))
	}
	simulator, err := open(map[string]string{"config": "scheduler.yaml", "pluginsDir": os.Args[1]})
	fail(err)
	defer C.berth_simulator_close(simulator)
	fail(setCluster(simulator, cluster))
	found, err := ask(simulator, question)
	fail(err)
	found.Print()
}

func open(options map[string]string) (*C.berth_simulator, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	given := C.CString(string(text))
	defer C.free(unsafe.Pointer(given))
	var reason *C.char
	simulator := C.berth_simulator_open(given, &reason)
	return simulator, taken(reason)
}

func setCluster(simulator *C.berth_simulator, manifests string) error {
	given := C.CString(manifests)
	defer C.free(unsafe.Pointer(given))
	var reason *C.char
	C.berth_simulator_set_cluster(simulator, given, &reason)
	return taken(reason)
}

func ask(simulator *C.berth_simulator, question string) (found answer.Answer, err error) {
	given := C.CString(question)
	defer C.free(unsafe.Pointer(given))
	var reason *C.char
	text := C.berth_simulator_what_if(simulator, given, 0, &reason)
	if text == nil {
		return found, taken(reason)
	}
	defer C.berth_string_free(text)
	return found, json.Unmarshal([]byte(C.GoString(text)), &found)
}

// taken is the error with this reason, which is freed.
func taken(reason *C.char) error {
	if reason == nil {
		return nil
	}
	defer C.berth_string_free(reason)
	return errors.New(C.GoString(reason))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "what-if:", err)
		os.Exit(1)
	}
}
