package berth

// Level is how urgent a line of the log is.
type Level uint8

// The levels, least urgent first.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Host is what the scheduler offers to a plugin. It is set before any plugin is called.
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

// Preemption is a node on which the pod fits once these pods are gone.
type Preemption struct {
	Node *Node
	// Victims are the pods, the most important first.
	Victims []*Pod
	// Violations is how many of the evictions violate a disruption budget.
	Violations int64
}

// ObjectKey names an object of a kind.
type ObjectKey struct {
	Namespace, Name string
}

// Log writes to the scheduler's log.
func Log(level Level, message string) { Host.Log(level, message) }

// Now is milliseconds since 1970, as of the start of this cycle.
func Now() uint64 { return Host.Now() }

// Count adds to the counter `berth_plugin_custom_total{name}`.
func Count(name string, amount uint64) { Host.Count(name, amount) }

// ImageSize is in bytes; 0 if no node has the image.
func ImageSize(name string) int64 { return Host.ImageSize(name) }

// Objects are those of a kind that the manifest names, as JSON.
func Objects(kind ObjectKind) map[ObjectKey][]byte { return Host.Objects(kind) }

// DryRun is for PostFilter: what the profile's other Filter plugins would say about nodes without some of their pods. Nil:
// they pass.
func DryRun(cases []Removal) []*Rejection { return Host.DryRun(cases) }

// AskExtenders is for PostFilter: what is left of these after the HTTP extenders with a `preemptVerb`, which leave nodes out
// and may name other pods of a node.
func AskExtenders(preemptions []Preemption) []Preemption { return Host.AskExtenders(preemptions) }

// Nodes are all nodes of the cluster, with the columns of the manifest.
func Nodes() []*Node { return Host.Nodes() }

// Pods are all pods on nodes, those that are being bound included, if the manifest asks for them or the plugin is a
// [PodFollower].
func Pods() []*Pod { return Host.Pods() }
