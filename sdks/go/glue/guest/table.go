package guest

import (
	"slices"
	"sync"

	"berth"

	"wit_component/berth_scheduler_types"

	wit "wit_component/abi"
)

// The first entries are the symbols 0 to 10, which are the same in every table.
var texts = []string{
	"", "cpu", "memory", "ephemeral-storage", "pods", "TCP", "0.0.0.0", "kubernetes.io/hostname",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/unschedulable",
}

var (
	// The node of each row; nil for a row without a node.
	nodes []*berth.Node
	// Nodes without data, by row: see Node.
	bare       []*berth.Node
	taintSets  = map[uint32][]berth.Taint{}
	imageSizes = map[string]int64{}
	// The pod of each slot; nil for a slot without a pod.
	placed  []*berth.Pod
	objects = map[berth.ObjectKind]map[berth.ObjectKey][]byte{}
)

var effects = [...]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

func text(symbol uint32) string {
	if int(symbol) < len(texts) {
		return texts[symbol]
	}
	return ""
}

// telling is the number of nodes that log undeclared reads of labels and annotations. Tests have fewer nodes, and the logging
// does not slow down large clusters.
const telling = 64

// keyed says whether the manifest does not request all labels.
var keyed = sync.OnceValue(func() bool { return !slices.Contains(berth.Registered().Describe().Columns, berth.Labels) })

// newNode returns a node without data.
func newNode(row uint32) *berth.Node {
	return &berth.Node{Row: row, Labels: labels(row, nil), Annotations: annotations(row, nil)}
}

// labels returns a node's labels for the plugin, with a mark if undeclared reads are logged.
func labels(row uint32, pairs berth.Pairs) berth.Pairs {
	if row < telling && keyed() {
		return berth.Chosen(pairs, berth.LabelPrefix)
	}
	return pairs
}

// annotations returns a node's annotations for the plugin, with a mark if undeclared reads are logged.
func annotations(row uint32, pairs berth.Pairs) berth.Pairs {
	if row < telling {
		return berth.Chosen(pairs, berth.AnnotationPrefix)
	}
	return pairs
}

// Node returns the node of a row. It returns a node without data if the plugin has no columns, because the scheduler does not
// send such a plugin the list of nodes.
func Node(row uint32) *berth.Node {
	if int(row) < len(nodes) && nodes[row] != nil {
		return nodes[row]
	}
	for int(row) >= len(bare) {
		bare = append(bare, newNode(uint32(len(bare))))
	}
	return bare[row]
}

// EventNode converts a node before or after an event. It has no annotations, and a read of one is logged.
func EventNode(node *berth_scheduler_types.Node) *berth.Node {
	allocatable := toAmounts(&node.Allocatable)
	allocatable["pods"] = node.AllowedPods
	return &berth.Node{
		Name: text(node.Name), Unschedulable: node.Unschedulable, Labels: toPairs(node.Labels),
		Taints: toTaints(node.Taints), Allocatable: allocatable, DeclaredFeatures: toTexts(node.DeclaredFeatures),
		Annotations: berth.Chosen(nil, berth.EventAnnotationPrefix),
	}
}

func toPairs(items []wit.Tuple2[uint32, uint32]) berth.Pairs {
	pairs := make(berth.Pairs, len(items))
	for i, item := range items {
		pairs[i] = berth.Pair{Key: text(item.F0), Value: text(item.F1)}
	}
	return pairs
}

func toTexts(symbols []uint32) []string {
	all := make([]string, len(symbols))
	for i, symbol := range symbols {
		all[i] = text(symbol)
	}
	return all
}

func toPorts(ports []berth_scheduler_types.HostPort) []berth.HostPort {
	all := make([]berth.HostPort, len(ports))
	for i, port := range ports {
		all[i] = berth.HostPort{Address: text(port.Address), Protocol: text(port.Protocol), Port: port.Port}
	}
	return all
}

func toTaints(taints []berth_scheduler_types.Taint) []berth.Taint {
	all := make([]berth.Taint, len(taints))
	for i, taint := range taints {
		all[i] = berth.Taint{Key: text(taint.Key), Value: text(taint.Value), Effect: effects[taint.Effect]}
	}
	return all
}
