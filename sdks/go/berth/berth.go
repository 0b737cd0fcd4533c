// Package berth is the SDK for Berth plugins in Go.
//
// A plugin is a value with some of the methods below. An init function registers it:
//
//	type even struct{}
//
//	func init() { berth.Register(even{}) }
//
//	func (even) Describe() berth.Manifest {
//		return berth.Manifest{Name: "Even", Version: "0.1.0", Columns: []berth.Column{berth.PodCount}}
//	}
//
//	func (even) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {
//		if node.PodCount%2 != 0 {
//			return berth.Reject("node(s) had an odd number of pods")
//		}
//		return nil
//	}
//
// plugin.wit must export the interface of each method: filter, score, normalize-score, and the interfaces of the methods
// in points.go: pre-enqueue, queue-sort, pre-filter, post-filter, pre-score, reserve, permit, pre-bind-pre-flight,
// pre-bind, bind, post-bind, queueing-hint, sign, reuse, state, explain.
//
// Every method may call [Nodes] and [Pods] to read the cluster.
//
// A panic is a fault: the call traps, the scheduler counts the fault and starts a fresh instance, and a plugin that keeps
// faulting is rolled back or quarantined. Return [Fail] to fail one attempt without a fault.
//
// A plugin has no files, no sockets and no clock. time.Now returns a false time, and written output is lost. Use [Now] and
// [Log].
package berth

// Plugin is the interface of every plugin.
type Plugin interface {
	// Describe is called once, before any other method. It must always return the same manifest.
	Describe() Manifest
}

// Configurer is a plugin with arguments.
type Configurer interface {
	// Configure gets the args in the profile's pluginConfig as JSON, or `null` if the profile has none. An error refuses
	// the args.
	Configure(args []byte) error
}

// Filterer rejects nodes that cannot run the pod. Filter is also called to explain why a node was rejected, and in dry
// runs.
type Filterer interface {
	// Filter returns nil if the node can run the pod.
	Filter(pod *Pod, node *Node) *Rejection
}

// Scorer scores the nodes that passed.
type Scorer interface {
	// Score returns 0 to 100, or any number if the plugin is a [Normalizer].
	Score(pod *Pod, node *Node) int64
}

// Normalizer changes scores to the range from 0 to 100.
type Normalizer interface {
	// Normalize gets the scores of all nodes that passed, and changes the scores in place.
	Normalize(pod *Pod, scores []int64)
}

// NodesFilterer filters all nodes in one call. The plugin must be a [Filterer] too.
type NodesFilterer interface {
	// FilterNodes returns the nodes that pass.
	FilterNodes(pod *Pod, nodes []*Node) []*Node
}

// NodesScorer scores all nodes in one call.
type NodesScorer interface {
	// ScoreNodes returns one score for each node, in the order of the nodes.
	ScoreNodes(pod *Pod, nodes []*Node) []int64
}

// Manifest describes a plugin and the data that it needs.
type Manifest struct {
	// Name is the plugin's name in profiles. It must equal the file's name without `.wasm`.
	Name string
	// Version is shown to users. The scheduler does not compare versions.
	Version string
	// Columns are the parts of the node table that the plugin reads.
	Columns []Column
	// Pods requests the pods on nodes: [Node.Pods] and [Pods]. A [PodFollower] gets the pods without this field.
	Pods bool
	// Objects are the kinds of which the plugin reads the whole objects. The operator must grant each kind.
	Objects []ObjectKind
	// PodJSON requests the whole JSON of pending pods.
	PodJSON bool
	// EventsToRegister are the events that may make a pod schedulable after this plugin rejected it. Nil stands for any
	// event.
	EventsToRegister []Event
}

// ObjectKind is a kind of Kubernetes object: `v1`, `PersistentVolume`.
type ObjectKind struct {
	APIVersion, Kind string
}

// Column is a part of the node table: one of the constants below, a [Label] or an [Annotation].
type Column string

// The columns, with their names in the contract.
const (
	Name             Column = "name"
	Unschedulable    Column = "unschedulable"
	Labels           Column = "labels"
	Taints           Column = "taints"
	Allocatable      Column = "allocatable"
	Requested        Column = "requested"
	NonZeroRequested Column = "non-zero-requested"
	PodCount         Column = "pod-count"
	Images           Column = "images"
	HostPorts        Column = "host-ports"
	DeclaredFeatures Column = "declared-features"
)

// LabelPrefix is the first part of each column that [Label] returns.
const LabelPrefix = "label "

// Label is the column of one label. [Labels] is the column of all labels.
func Label(key string) Column { return LabelPrefix + Column(key) }

// AnnotationPrefix is the first part of each column that [Annotation] returns.
const AnnotationPrefix = "annotation "

// EventAnnotationPrefix is the first part of the log lines about reads of annotations of an event's node, which has none. Only
// the SDK itself uses it.
const EventAnnotationPrefix = "the event node's annotation "

// Annotation is the column of one annotation.
func Annotation(key string) Column { return AnnotationPrefix + Column(key) }

// Code is the kind of a [Rejection].
type Code uint8

// The codes.
const (
	// RejectCode means that the eviction of pods may help. See [Reject].
	RejectCode Code = iota
	// UnresolvableCode means that the eviction of pods cannot help. See [RejectUnresolvable].
	UnresolvableCode
	// PendingCode means that the pod waits for an event outside the scheduler. See [Pending].
	PendingCode
	// SkipCode means that the plugin has nothing to do for the pod. See [Skip].
	SkipCode
	// ErrorCode means that the attempt fails with an error. See [Fail].
	ErrorCode
)

// Rejection rejects the pod, or a node for the pod. Do not change it, because one value may stand for many nodes.
type Rejection struct {
	Reason string
	Code   Code
}

// last is the newest rejection. It is shared, because thousands of nodes are often rejected for the same reason.
var last = &Rejection{}

func rejection(code Code, reason string) *Rejection {
	if last.Code != code || last.Reason != reason {
		last = &Rejection{Reason: reason, Code: code}
	}
	return last
}

// Reject rejects the pod or the node. The eviction of pods may help.
func Reject(reason string) *Rejection { return rejection(RejectCode, reason) }

// RejectUnresolvable rejects the pod or the node. The eviction of pods cannot help.
func RejectUnresolvable(reason string) *Rejection {
	return rejection(UnresolvableCode, reason)
}

// Pending rejects the pod until an event outside the scheduler. After that event, the pod skips its backoff.
func Pending(reason string) *Rejection { return rejection(PendingCode, reason) }

// Skip says that the plugin has nothing to do for this pod. PreFilter, PreScore, PreBindPreFlight, PreBind and Bind may
// return it.
func Skip() *Rejection { return rejection(SkipCode, "") }

// Fail fails the attempt with this reason. The attempt is repeated after a backoff. The error counts in
// `berth_plugin_errors_total`. It is not a fault, in contrast to a panic.
func Fail(reason string) *Rejection { return rejection(ErrorCode, reason) }

var registered Plugin

// Register sets the component's plugin. Call it once, in an init function.
func Register(plugin Plugin) {
	if registered != nil {
		panic("a component holds one plugin")
	}
	registered = plugin
}

// Registered returns the component's plugin.
func Registered() Plugin { return registered }
