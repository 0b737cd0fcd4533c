// Package berth is what Berth plugins in Go are written with.
//
// A plugin is a value with some of the methods below, registered by an init function:
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
// plugin.wit must export an interface for each: filter, score, normalize-score, and those of points.go: pre-enqueue,
// queue-sort, pre-filter, post-filter, pre-score, reserve, permit, pre-bind-pre-flight, pre-bind, bind, post-bind, queueing-hint, sign, reuse, state.
//
// Everywhere, [Nodes] and [Pods] show the cluster.
//
// A panic is a fault: the call traps, the scheduler counts it and starts a fresh instance, and a plugin that keeps faulting
// is rolled back or quarantined. Answer [Fail] to fail one attempt and go on.
//
// There are no files, no sockets and no clock; time.Now answers nonsense and writes vanish. Use [Now] and [Log].
package berth

// Plugin is what every plugin does.
type Plugin interface {
	// Describe is called once, first, and may not depend on anything.
	Describe() Manifest
}

// Configurer is a plugin with arguments.
type Configurer interface {
	// Configure gets the profile's pluginConfig as JSON, `null` when there is none. An error refuses it.
	Configure(args []byte) error
}

// Filterer rejects nodes that cannot run the pod. It also answers why a node was rejected, and dry runs.
type Filterer interface {
	// Filter gives nil if the node can run the pod.
	Filter(pod *Pod, node *Node) *Rejection
}

// Scorer ranks the nodes that passed.
type Scorer interface {
	// Score is 0 to 100, or anything if the plugin is a [Normalizer].
	Score(pod *Pod, node *Node) int64
}

// Normalizer brings scores into 0 to 100.
type Normalizer interface {
	// Normalize gets the scores of all nodes that passed, and changes them.
	Normalize(pod *Pod, scores []int64)
}

// NodesFilterer filters all nodes at once. Such a plugin is a [Filterer] too.
type NodesFilterer interface {
	// FilterNodes gives the nodes that pass.
	FilterNodes(pod *Pod, nodes []*Node) []*Node
}

// NodesScorer scores all nodes at once.
type NodesScorer interface {
	// ScoreNodes gives as many scores as there are nodes.
	ScoreNodes(pod *Pod, nodes []*Node) []int64
}

// Manifest is a plugin's account of itself.
type Manifest struct {
	// Name is what profiles use. It must equal the file's name without `.wasm`.
	Name string
	// Version is for people.
	Version string
	// Columns are the parts of the node table that the plugin looks at.
	Columns []Column
	// Pods is whether nodes have their pods, and [Pods] all of them. A [PodFollower] has them without saying so.
	Pods bool
	// Objects are kinds to keep, whole; the operator must grant each.
	Objects []ObjectKind
	// PodJSON is whether pending pods have their whole JSON.
	PodJSON bool
	// EventsToRegister are the events that may make a pod schedulable which this plugin rejected. Nil: any may.
	EventsToRegister []Event
}

// ObjectKind is a kind of Kubernetes object: `v1`, `PersistentVolume`.
type ObjectKind struct {
	APIVersion, Kind string
}

// Column is a part of the node table: a constant below, a [Label] or an [Annotation].
type Column string

// The columns, by their names in the contract.
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

// LabelPrefix marks a [Label] among the columns.
const LabelPrefix = "label "

// Label is instead of [Labels]: this label only.
func Label(key string) Column { return LabelPrefix + Column(key) }

// AnnotationPrefix marks an [Annotation] among the columns.
const AnnotationPrefix = "annotation "

// Annotation is one annotation.
func Annotation(key string) Column { return AnnotationPrefix + Column(key) }

// Code is what sort of no a [Rejection] is.
type Code uint8

// The codes.
const (
	// RejectCode is where evicting pods may help.
	RejectCode Code = iota
	// UnresolvableCode is where it cannot.
	UnresolvableCode
	// PendingCode is until something outside the scheduler happens.
	PendingCode
	// SkipCode is where the plugin has nothing to say.
	SkipCode
	// ErrorCode is where something broke. See [Fail].
	ErrorCode
)

// Rejection says no: to the pod, or to a node for it. It is not to be changed: one may stand for many nodes.
type Rejection struct {
	Reason string
	Code   Code
}

// last is the rejection made last: thousands of nodes are often rejected for the same reason.
var last = &Rejection{}

func rejection(code Code, reason string) *Rejection {
	if last.Code != code || last.Reason != reason {
		last = &Rejection{Reason: reason, Code: code}
	}
	return last
}

// Reject is a rejection where evicting pods may help.
func Reject(reason string) *Rejection { return rejection(RejectCode, reason) }

// RejectUnresolvable is a rejection where evicting pods cannot help.
func RejectUnresolvable(reason string) *Rejection {
	return rejection(UnresolvableCode, reason)
}

// Pending is a rejection until something outside the scheduler happens; that event skips the pod's backoff.
func Pending(reason string) *Rejection { return rejection(PendingCode, reason) }

// Skip is for PreFilter, PreScore, PreBindPreFlight, PreBind and Bind: nothing to say about this pod.
func Skip() *Rejection { return rejection(SkipCode, "") }

// Fail is for what broke: the attempt fails with this reason and is repeated after a backoff. It counts in
// `berth_plugin_errors_total` and is not a fault, as a panic would be.
func Fail(reason string) *Rejection { return rejection(ErrorCode, reason) }

var registered Plugin

// Register makes this the component's plugin. Called from an init function, once.
func Register(plugin Plugin) {
	if registered != nil {
		panic("a component holds one plugin")
	}
	registered = plugin
}

// Registered is the component's plugin.
func Registered() Plugin { return registered }
