// Package guest is one plugin inside a component: the replica, the open cycles, and the plugin itself.
package guest

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"berth"

	host "wit_component/berth_scheduler_host"
	"wit_component/berth_scheduler_types"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

// openCycle is a cycle's pod, and those that its dry runs have named.
type openCycle struct {
	pod   *berth.Pod
	tried []*berth.Pod
}

var cycles = map[uint64]*openCycle{}

func init() {
	berth.Host.Log = func(level berth.Level, message string) { host.Log(uint8(level), message) }
	berth.Host.Now = host.Now
	berth.Host.Count = host.Count
	berth.Host.ImageSize = func(name string) int64 { return imageSizes[name] }
	berth.Host.DryRun = dryRun
	berth.Host.Objects = func(kind berth.ObjectKind) map[berth.ObjectKey][]byte { return objects[kind] }
}

// Begin opens a cycle.
func Begin(cycle uint64, pod *berth_scheduler_types.Pod) { cycles[cycle] = &openCycle{pod: Pod(pod)} }

// End forgets a cycle.
func End(cycle uint64) { delete(cycles, cycle) }

// caught is why something panicked, in the contract's words.
func caught(reason any) *berth_scheduler_types.Status {
	text := fmt.Sprint(reason)
	berth.Log(berth.Error, "panic: "+text)
	return &berth_scheduler_types.Status{Code: berth_scheduler_types.Code_Error, Reasons: []string{text}}
}

// Try runs an answer. What panics fails the attempt, and not the instance: the status says why.
func Try(run func()) (failed *berth_scheduler_types.Status) {
	defer func() {
		if reason := recover(); reason != nil {
			failed = caught(reason)
		}
	}()
	run()
	return nil
}

// Answer runs an answer about the cycle's pod, as [Try] does.
func Answer(cycle uint64, run func(pod *berth.Pod)) *berth_scheduler_types.Status {
	return Try(func() {
		open, isOpen := cycles[cycle]
		if !isOpen {
			panic("called outside a cycle")
		}
		run(open.pod)
	})
}

// Check runs an answer that may be a rejection, which is a status as well.
func Check(cycle uint64, run func(pod *berth.Pod) *berth.Rejection) *berth_scheduler_types.Status {
	var rejection *berth.Rejection
	if failed := Answer(cycle, func(pod *berth.Pod) { rejection = run(pod) }); failed != nil {
		return failed
	}
	if rejection == nil {
		return nil
	}
	status := Status(rejection)
	return &status
}

// Result is an answer, or the status in its place.
func Result[T any](answer T, failed *berth_scheduler_types.Status) wit.Result[T, berth_scheduler_types.Status] {
	if failed != nil {
		return wit.Err[T](*failed)
	}
	return wit.Ok[T, berth_scheduler_types.Status](answer)
}

// Unit is the [Result] of what only passes or not.
func Unit(failed *berth_scheduler_types.Status) wit.Result[wit.Unit, berth_scheduler_types.Status] {
	return Result(wit.Unit{}, failed)
}

var codes = [...]uint8{
	berth.RejectCode:                   berth_scheduler_types.Code_Unschedulable,
	berth.UnresolvableCode: berth_scheduler_types.Code_UnschedulableAndUnresolvable,
	berth.PendingCode:                  berth_scheduler_types.Code_Pending,
	berth.SkipCode:                     berth_scheduler_types.Code_Skip,
	berth.ErrorCode:                    berth_scheduler_types.Code_Error,
}

// Status is a plugin's verdict in the contract's words.
func Status(rejection *berth.Rejection) berth_scheduler_types.Status {
	if rejection == nil {
		return berth_scheduler_types.Status{Code: berth_scheduler_types.Code_Success}
	}
	status := berth_scheduler_types.Status{Code: codes[rejection.Code]}
	if rejection.Reason != "" {
		status.Reasons = []string{rejection.Reason}
	}
	return status
}

// Rejection is a status in a plugin's words; nil for success.
func Rejection(status berth_scheduler_types.Status) *berth.Rejection {
	if status.Code == berth_scheduler_types.Code_Success {
		return nil
	}
	code := slices.Index(codes[:], status.Code)
	if code < 0 {
		code = int(berth.ErrorCode)
	}
	return &berth.Rejection{Code: berth.Code(code), Reason: strings.Join(status.Reasons, ", ")}
}

func dryRun(cases []berth.Removal) []*berth.Rejection {
	removals := make([]host.Removal, len(cases))
	for i, removal := range cases {
		removals[i].Node = removal.Node.Row
		for _, pod := range removal.Pods {
			removals[i].Pods = append(removals[i].Pods, pod.Slot)
		}
	}
	answer := host.DryRun(removals)
	if answer.IsErr() {
		panic(strings.Join(answer.Err().Reasons, ", "))
	}
	verdicts := make([]*berth.Rejection, len(cases))
	for i, status := range answer.Ok() {
		verdicts[i] = Rejection(status)
	}
	return verdicts
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
