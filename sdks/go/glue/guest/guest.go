// Package guest holds the data of a component between calls: the replica, the open cycles, and the plugin.
package guest

import (
	"fmt"
	"iter"
	"math/bits"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"berth"

	host "wit_component/berth_scheduler_host"
	"wit_component/berth_scheduler_types"

	wit "wit_component/abi"
)

// openCycle has the pod of a cycle, and the pods that the dry runs of the cycle have named.
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
	berth.Host.AskExtenders = askExtenders
	berth.Host.Nodes = allNodes
	berth.Host.Pods = allPods
	berth.Host.Objects = objectsOf
}

// Begin opens a cycle.
func Begin(cycle uint64, pod *berth_scheduler_types.Pod) { cycles[cycle] = &openCycle{pod: Pod(pod)} }

// End closes a cycle.
func End(cycle uint64) { delete(cycles, cycle) }

// Run runs a call of the scheduler. A panic is a fault: Run logs it, then the call traps. If the host itself failed, Run
// returns the host's status instead.
func Run(call func()) (failed *berth_scheduler_types.Status) {
	defer func() {
		reason := recover()
		if answered, isStatus := reason.(hostFailed); isStatus {
			failed = &answered.status
		} else if reason != nil {
			berth.Log(berth.Error, fmt.Sprint(reason)+place())
			// The adapter traps.
			os.Exit(2)
		}
	}()
	call()
	return nil
}

// hostFailed is the value of the panic that ends a call if the host cannot answer. It is not a fault of the plugin.
type hostFailed struct{ status berth_scheduler_types.Status }

// place returns the place of the innermost call in the plugin's own package or in a package below it. It is called while a
// panic unwinds.
func place() string {
	kind := reflect.TypeOf(berth.Registered())
	if kind == nil {
		return ""
	}
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	for {
		frame, isMore := frames.Next()
		rest, isOwn := strings.CutPrefix(frame.Function, kind.PkgPath())
		if isOwn && rest != "" && (rest[0] == '.' || rest[0] == '/') {
			// The file's path starts with the path of the module.
			file := frame.File[strings.Index(frame.File, "@v0.0.0/")+1:]
			file = strings.TrimPrefix(file, "v0.0.0/")
			function := rest[strings.LastIndex(rest, ".")+1:]
			return fmt.Sprintf(", at %s:%d in %s", file, frame.Line, function)
		}
		if !isMore {
			return ""
		}
	}
}

// Answer calls a method of the plugin with the cycle's pod, as [Run] does.
func Answer(cycle uint64, run func(pod *berth.Pod)) *berth_scheduler_types.Status {
	return Run(func() {
		open, isOpen := cycles[cycle]
		if !isOpen {
			panic("called outside a cycle")
		}
		run(open.pod)
	})
}

// Check calls a method of the plugin that may return a rejection. It returns the rejection as a status.
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

// Result is an answer, or a status if there is no answer.
func Result[T any](answer T, failed *berth_scheduler_types.Status) wit.Result[T, berth_scheduler_types.Status] {
	if failed != nil {
		return wit.Err[T](*failed)
	}
	return wit.Ok[T, berth_scheduler_types.Status](answer)
}

// Unit is the [Result] of a call that has no answer except success.
func Unit(failed *berth_scheduler_types.Status) wit.Result[wit.Unit, berth_scheduler_types.Status] {
	return Result(wit.Unit{}, failed)
}

var codes = [...]uint8{
	berth.RejectCode:       berth_scheduler_types.Code_Unschedulable,
	berth.UnresolvableCode: berth_scheduler_types.Code_UnschedulableAndUnresolvable,
	berth.PendingCode:      berth_scheduler_types.Code_Pending,
	berth.SkipCode:         berth_scheduler_types.Code_Skip,
	berth.ErrorCode:        berth_scheduler_types.Code_Error,
}

// Status converts a rejection to the contract's status. Nil becomes success.
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

// Rejection converts the contract's status to a rejection. Success becomes nil.
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
		panic(hostFailed{answer.Err()})
	}
	verdicts := make([]*berth.Rejection, len(cases))
	for i, status := range answer.Ok() {
		verdicts[i] = Rejection(status)
	}
	return verdicts
}

func askExtenders(preemptions []berth.Preemption) []berth.Preemption {
	asked := make([]host.Preemption, len(preemptions))
	for i, preemption := range preemptions {
		asked[i] = host.Preemption{Node: preemption.Node.Row, Violations: preemption.Violations}
		for _, pod := range preemption.Victims {
			asked[i].Victims = append(asked[i].Victims, pod.Slot)
		}
	}
	answer := host.AskExtenders(asked)
	if answer.IsErr() {
		panic(hostFailed{answer.Err()})
	}
	agreed := make([]berth.Preemption, len(answer.Ok()))
	for i, preemption := range answer.Ok() {
		agreed[i] = berth.Preemption{Node: Node(preemption.Node), Violations: preemption.Violations}
		for _, slot := range preemption.Victims {
			agreed[i].Victims = append(agreed[i].Victims, placed[slot])
		}
	}
	return agreed
}

// FollowsPods says whether the replica has the pods on nodes.
func FollowsPods() bool {
	_, follows := berth.Registered().(berth.PodFollower)
	return follows || berth.Registered().Describe().Pods
}

// lookedUp are the kinds without objects that the plugin has read. Each is compared with the manifest once.
var lookedUp = map[berth.ObjectKind]bool{}

// objectsOf tells a read of a kind that the manifest does not name: the scheduler knows the line by its beginning.
func objectsOf(kind berth.ObjectKind) map[berth.ObjectKey][]byte {
	kept, isKept := objects[kind]
	if !isKept && !lookedUp[kind] {
		lookedUp[kind] = true
		if !slices.Contains(berth.Registered().Describe().Objects, kind) {
			berth.Log(berth.Warn, "undeclared read: objects "+kind.APIVersion+"/"+kind.Kind)
		}
	}
	return kept
}

func allNodes() []*berth.Node {
	if !FollowsPods() && len(berth.Registered().Describe().Columns) == 0 {
		panic("Nodes needs Columns in the manifest")
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(node *berth.Node) bool { return node == nil })
}

func allPods() []*berth.Pod {
	if !FollowsPods() {
		panic("Pods needs Pods in the manifest")
	}
	return slices.DeleteFunc(slices.Clone(placed), func(pod *berth.Pod) bool { return pod == nil })
}

// All iterates over the nodes of a bitmap, in ascending order of their rows.
func All(words []uint64) iter.Seq[*berth.Node] {
	return func(yield func(*berth.Node) bool) {
		for i, word := range words {
			for ; word != 0; word &= word - 1 {
				if !yield(Node(uint32(i*64 + bits.TrailingZeros64(word)))) {
					return
				}
			}
		}
	}
}

// Count returns the number of nodes in a bitmap.
func Count(words []uint64) int {
	count := 0
	for _, word := range words {
		count += bits.OnesCount64(word)
	}
	return count
}

// Nodes returns the nodes of a bitmap, in ascending order of their rows.
func Nodes(words []uint64) []*berth.Node {
	found := make([]*berth.Node, 0, Count(words))
	for node := range All(words) {
		found = append(found, node)
	}
	return found
}

// Insert sets the bit of a node in a bitmap.
func Insert(words []uint64, node *berth.Node) { words[node.Row/64] |= 1 << (node.Row % 64) }
