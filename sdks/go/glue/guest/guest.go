// Package guest is one plugin inside a component: the replica, the open cycles, and the plugin itself.
package guest

import (
	"fmt"
	"math/bits"

	"berth"

	host "wit_component/berth_scheduler_host"
	"wit_component/berth_scheduler_types"
)

var cycles = map[uint64]*berth.Pod{}

func init() {
	berth.Host.Log = func(level berth.Level, message string) { host.Log(uint8(level), message) }
	berth.Host.Now = host.Now
	berth.Host.Count = host.Count
	berth.Host.ImageSize = func(name string) int64 { return imageSizes[name] }
	berth.Host.Objects = func(kind berth.ObjectKind) map[berth.ObjectKey][]byte { return objects[kind] }
}

// Begin opens a cycle.
func Begin(cycle uint64, pod *berth_scheduler_types.Pod) { cycles[cycle] = toPod(pod) }

// End forgets a cycle.
func End(cycle uint64) { delete(cycles, cycle) }

// Answer runs an answer about the cycle's pod. What panics fails the attempt, and not the instance: the status says why.
func Answer(cycle uint64, run func(pod *berth.Pod)) (failed *berth_scheduler_types.Status) {
	defer func() {
		if reason := recover(); reason != nil {
			text := fmt.Sprint(reason)
			berth.Log(berth.Error, "panic: "+text)
			failed = &berth_scheduler_types.Status{Code: berth_scheduler_types.Code_Error, Reasons: []string{text}}
		}
	}()
	pod, isOpen := cycles[cycle]
	if !isOpen {
		panic("called outside a cycle")
	}
	run(pod)
	return nil
}

// Status is a plugin's verdict in the contract's words.
func Status(rejection *berth.Rejection) berth_scheduler_types.Status {
	if rejection == nil {
		return berth_scheduler_types.Status{Code: berth_scheduler_types.Code_Success}
	}
	code := berth_scheduler_types.Code_Unschedulable
	if rejection.Unresolvable {
		code = berth_scheduler_types.Code_UnschedulableAndUnresolvable
	}
	return berth_scheduler_types.Status{Code: code, Reasons: []string{rejection.Reason}}
}

// Nodes are those of a bitmap, in ascending order.
func Nodes(words []uint64) []*berth.Node {
	count := 0
	for _, word := range words {
		count += bits.OnesCount64(word)
	}
	found := make([]*berth.Node, 0, count)
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			found = append(found, Node(uint32(i*64+bits.TrailingZeros64(word))))
		}
	}
	return found
}

// Insert sets a node's bit.
func Insert(words []uint64, node *berth.Node) { words[node.Row/64] |= 1 << (node.Row % 64) }
