package berth

import "slices"

// Node is a node. A field is empty if the manifest does not request its column. Do not change a node.
type Node struct {
	Row           uint32
	Name          string
	Unschedulable bool
	Labels        Pairs
	Taints        []Taint
	// The amount of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0.
	Allocatable map[string]int64
	Requested   map[string]int64
	// The sums of the pods' requests. A container without a request counts with a default.
	NonZeroMilliCPU  int64
	NonZeroMemory    int64
	PodCount         int64
	Images           []string
	HostPorts        []HostPort
	DeclaredFeatures []string
	Annotations      Pairs
	// The pods on the node, if the manifest requests Pods or the plugin is a [PodFollower].
	Pods []*Pod
}

// Pod is a pending pod or a pod on a node.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	Priority  int32
	Labels    Pairs
	// The owner reference with `controller: true`, or nil if the pod has none.
	Owner *Owner
	// The images of init containers, containers and image volumes. An image without a tag and a digest has the tag `latest`.
	Images    []string
	HostPorts []HostPort
	// The pod's request of each resource: milli-CPU, bytes or units. A resource that is absent has the amount 0.
	Requests map[string]int64
	// The amounts that the pod adds to the usage of its node, including a resize that is in progress. In the NonZero
	// fields, a container without a request counts with a default.
	PlacedRequests  map[string]int64
	NonZeroMilliCPU int64
	NonZeroMemory   int64
	// The whole pending pod, if the manifest requests PodJSON. It is empty once the pod has a node, also in Explain.
	JSON []byte
	// Slot and Node are set for pods on nodes only.
	Slot uint32
	Node *Node
}

// Owner is the controller of a pod, as in the pod's `metadata.ownerReferences`.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// Pair is a label or an annotation.
type Pair struct {
	Key, Value string
}

// Pairs are labels or annotations. An object has few of them, therefore Get searches the list.
type Pairs []Pair

// Get returns the value of a label or annotation, and whether the key exists.
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

// mark is the key of a pair behind the end of labels or annotations. Only [Pairs.Get] reads that pair. No label has such a
// key.
const mark = "\x00"

// Chosen marks the labels or annotations of a node, if the manifest requests single keys. [Pairs.Get] then logs each read
// of another key. The prefix is [LabelPrefix], [AnnotationPrefix] or [EventAnnotationPrefix]. Only the SDK itself calls Chosen.
func Chosen(pairs Pairs, prefix string) Pairs {
	return append(pairs, Pair{Key: mark, Value: prefix})[:len(pairs)]
}

// told are the undeclared reads that were logged: for each, the prefix and the key.
var told = map[Pair]bool{}

// tellUndeclared logs the read of a key once, if the manifest does not request the key. The scheduler recognizes the log
// line by its first words.
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

// Taint is an entry of `spec.taints`. Effect is NoSchedule, PreferNoSchedule or NoExecute.
type Taint struct {
	Key, Value, Effect string
}

// HostPort is a port of a node that a pod uses. The address 0.0.0.0 stands for all addresses.
type HostPort struct {
	Address, Protocol string
	Port              int32
}
