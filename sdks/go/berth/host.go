package berth

// Level is the level of a log line.
type Level uint8

// The levels, from the least urgent to the most urgent.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Host holds the scheduler's functions for a plugin. It is set before any method of the plugin is called.
var Host struct {
	Log       func(level Level, message string)
	Now       func() uint64
	Count     func(name string, amount uint64)
	ImageSize func(name string) int64
	Objects   func(kind ObjectKind) map[ObjectKey][]byte
	DryRun    func(cases []Removal) []*Rejection
	Nodes     func() []*Node
	Pods      func() []*Pod

	AskExtenders func(preemptions []Preemption) []Preemption
}

// Removal is a node without some of its pods.
type Removal struct {
	Node *Node
	Pods []*Pod
}

// Preemption is a node on which the pod fits after the eviction of the victims.
type Preemption struct {
	Node *Node
	// Victims are the pods to evict, the most important pod first.
	Victims []*Pod
	// Violations is the number of evictions that violate a disruption budget.
	Violations int64
}

// ObjectKey names one of the objects of a kind.
type ObjectKey struct {
	Namespace, Name string
}

// Log writes a line to the scheduler's log.
func Log(level Level, message string) { Host.Log(level, message) }

// Now returns the time at the start of this cycle, in milliseconds since 1970.
func Now() uint64 { return Host.Now() }

// Count adds to the counter `berth_plugin_custom_total{name}`.
func Count(name string, amount uint64) { Host.Count(name, amount) }

// ImageSize returns the size of an image in bytes, or 0 if no node has the image.
func ImageSize(name string) int64 { return Host.ImageSize(name) }

// Objects returns the objects of a kind as JSON. The manifest must name the kind.
func Objects(kind ObjectKind) map[ObjectKey][]byte { return Host.Objects(kind) }

// DryRun asks the profile's other Filter plugins about nodes without some of their pods. It returns one answer for each
// case; nil means that the node passes. Call it in PostFilter only.
func DryRun(cases []Removal) []*Rejection { return Host.DryRun(cases) }

// AskExtenders asks the HTTP extenders that have a `preemptVerb`, and returns the preemptions that they keep. An extender
// may remove nodes and name other victims on a node. Call it in PostFilter only.
func AskExtenders(preemptions []Preemption) []Preemption { return Host.AskExtenders(preemptions) }

// Nodes returns all nodes of the cluster, with the columns of the manifest.
func Nodes() []*Node { return Host.Nodes() }

// Pods returns all pods on nodes, including the pods that are being bound. The manifest must request Pods, or the plugin
// must be a [PodFollower].
func Pods() []*Pod { return Host.Pods() }
