package berth

import "slices"

// Node is a node; what the plugin's columns don't name stays empty. It is not to be changed.
type Node struct {
	Row           uint32
	Name          string
	Unschedulable bool
	Labels        Pairs
	Taints        []Taint
	// By resource: milli-CPU, bytes, units. What is not there is 0.
	Allocatable map[string]int64
	Requested   map[string]int64
	// Requests with defaults for containers that request none.
	NonZeroMilliCPU  int64
	NonZeroMemory    int64
	PodCount         int64
	Images           []string
	HostPorts        []HostPort
	DeclaredFeatures []string
	Annotations      Pairs
	// If the manifest asks for them, or the plugin is a [PodFollower].
	Pods []*Pod
}

// Pod is a pod, pending or placed.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	Priority  int32
	Labels    Pairs
	// The owner reference with `controller: true`; nil if there is none.
	Owner     *Owner
	Images    []string
	HostPorts []HostPort
	// What the pod asks for, by resource: milli-CPU, bytes, units. What is not there is 0.
	Requests map[string]int64
	// What the usage of its node grows by: a resize under way counts. NonZero has defaults for containers that request
	// none.
	PlacedRequests  map[string]int64
	NonZeroMilliCPU int64
	NonZeroMemory   int64
	// The whole pending pod, if the manifest's PodJSON asks for it.
	JSON []byte
	// Only for a pod on a node.
	Slot uint32
	Node *Node
}

// Owner is the controller of a pod, as in its `metadata.ownerReferences`.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// Pair is a label.
type Pair struct {
	Key, Value string
}

// Pairs are labels. There are few, so they are searched.
type Pairs []Pair

// Get gives a label's value, and whether there is one.
func (pairs Pairs) Get(key string) (string, bool) {
	for i := range pairs {
		if pairs[i].Key == key {
			return pairs[i].Value, true
		}
	}
	if cap(pairs) > len(pairs) {
		if behind := pairs[:len(pairs)+1][len(pairs)]; behind.Key == mark {
			tellUndeclared(behind.Value, key)
		}
	}
	return "", false
}

// mark is the key of a pair behind the end of labels or annotations, where only [Pairs.Get] looks. No label has such a key.
const mark = "\x00"

// Chosen marks labels or annotations of which the manifest names some by key, so that the read of another key is told. The
// prefix is [LabelPrefix] or [AnnotationPrefix]. For the SDK itself.
func Chosen(pairs Pairs, prefix string) Pairs {
	return append(pairs, Pair{Key: mark, Value: prefix})[:len(pairs)]
}

// told are the keys that were read in vain, by prefix and key.
var told = map[Pair]bool{}

// tellUndeclared says it once if the manifest does not name the key: the scheduler knows the line by its beginning.
func tellUndeclared(prefix, key string) {
	read := Pair{Key: key, Value: prefix}
	if told[read] {
		return
	}
	told[read] = true
	column := Column(prefix + key)
	if !slices.Contains(registered.Describe().Columns, column) {
		Log(Warn, "undeclared read: "+string(column))
	}
}

// Taint is one of `spec.taints`; Effect is NoSchedule, PreferNoSchedule or NoExecute.
type Taint struct {
	Key, Value, Effect string
}

// HostPort is a port of the node in use. The address 0.0.0.0 stands for all.
type HostPort struct {
	Address, Protocol string
	Port              int32
}
