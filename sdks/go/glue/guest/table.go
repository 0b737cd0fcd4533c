package guest

import (
	"slices"
	"sync"

	"berth"

	"wit_component/berth_scheduler_types"

	wit "wit_component/abi"
)

// Symbols 0 to 10 of every table come first.
var texts = []string{
	"", "cpu", "memory", "ephemeral-storage", "pods", "TCP", "0.0.0.0", "kubernetes.io/hostname",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "node.kubernetes.io/unschedulable",
}

var (
	// By row; nil where no node is.
	nodes []*berth.Node
	// By row: what stands for nodes of which the plugin is told nothing.
	bare       []*berth.Node
	taintSets  = map[uint32][]berth.Taint{}
	imageSizes = map[string]int64{}
	// By slot; nil where no pod is.
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

// So many nodes tell of keys that are not declared: enough for a test, and large clusters are as fast as without.
const telling = 64

// keyed is whether the manifest names labels by their keys at most.
var keyed = sync.OnceValue(func() bool { return !slices.Contains(berth.Registered().Describe().Columns, berth.Labels) })

// newNode is a node of which nothing is known yet.
func newNode(row uint32) *berth.Node {
	return &berth.Node{Row: row, Labels: labels(row, nil), Annotations: annotations(row, nil)}
}

// labels are a node's labels as the plugin sees them.
func labels(row uint32, pairs berth.Pairs) berth.Pairs {
	if row < telling && keyed() {
		return berth.Chosen(pairs, berth.LabelPrefix)
	}
	return pairs
}

// annotations are a node's annotations as the plugin sees them.
func annotations(row uint32, pairs berth.Pairs) berth.Pairs {
	if row < telling {
		return berth.Chosen(pairs, berth.AnnotationPrefix)
	}
	return pairs
}

// Node is the node of a row. A plugin without columns is not told which nodes there are.
func Node(row uint32) *berth.Node {
	if int(row) < len(nodes) && nodes[row] != nil {
		return nodes[row]
	}
	for int(row) >= len(bare) {
		bare = append(bare, newNode(uint32(len(bare))))
	}
	return bare[row]
}

// EventNode is a node before or after an event.
func EventNode(node *berth_scheduler_types.Node) *berth.Node {
	allocatable := toAmounts(&node.Allocatable)
	allocatable["pods"] = node.AllowedPods
	return &berth.Node{
		Name: text(node.Name), Unschedulable: node.Unschedulable, Labels: toPairs(node.Labels),
		Taints: toTaints(node.Taints), Allocatable: allocatable, DeclaredFeatures: toTexts(node.DeclaredFeatures),
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
