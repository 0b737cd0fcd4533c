// Package probe is a plugin that rejects every node, and spells what it sees of it.
package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth"
)

type probe struct {
	args     string
	followed map[string]bool
}

func init() { berth.Register(&probe{followed: map[string]bool{}}) }

func (probe *probe) Configure(args []byte) error {
	probe.args = string(args)
	return nil
}

func placement(pod *berth.Pod) string { return pod.Namespace + "/" + pod.Name + "@" + pod.Node.Name }

func (probe *probe) PodPlaced(pod *berth.Pod, _ *berth.Node) { probe.followed[placement(pod)] = true }

func (probe *probe) PodRemoved(pod *berth.Pod, _ *berth.Node) {
	if !probe.followed[placement(pod)] {
		panic(placement(pod) + " was never placed")
	}
	delete(probe.followed, placement(pod))
}

func (*probe) Describe() berth.Manifest {
	return berth.Manifest{Name: "Probe", Version: "0.1.0", Columns: []berth.Column{
		berth.Name, berth.Unschedulable, berth.Labels, berth.Taints, berth.Allocatable, berth.Requested,
		berth.NonZeroRequested, berth.PodCount, berth.Images, berth.HostPorts, berth.DeclaredFeatures,
		berth.Annotation("example.com/note"), berth.Annotation("example.com/empty"),
	}}
}

func list[T any](items []T, spell func(item T) string) string {
	spelled := make([]string, len(items))
	for i, item := range items {
		spelled[i] = spell(item)
	}
	return strings.Join(spelled, ",")
}

func pair(pair berth.Pair) string { return pair.Key + "=" + pair.Value }

func amounts(amounts map[string]int64) string {
	return list([]string{"cpu", "memory", "pods", "example.com/gpu"}, func(name string) string {
		return fmt.Sprint(amounts[name])
	})
}

func (probe *probe) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {
	switch probe.args {
	case `"fault"`:
		panic("on demand")
	case `"error"`:
		return berth.Fail("on purpose")
	}
	unschedulable := "0"
	if node.Unschedulable {
		unschedulable = "1"
	}
	columns := []string{
		node.Name,
		unschedulable,
		list(node.Labels, pair),
		list(node.Taints, func(taint berth.Taint) string { return taint.Key + "=" + taint.Value + ":" + taint.Effect }),
		amounts(node.Allocatable),
		amounts(node.Requested),
		fmt.Sprintf("%d,%d", node.NonZeroMilliCPU, node.NonZeroMemory),
		fmt.Sprint(node.PodCount),
		list(node.Images, func(name string) string { return fmt.Sprintf("%s=%d", name, berth.ImageSize(name)) }),
		list(node.HostPorts, func(port berth.HostPort) string {
			return fmt.Sprintf("%s/%s/%d", port.Address, port.Protocol, port.Port)
		}),
		strings.Join(node.DeclaredFeatures, ","),
		pod.Namespace + "/" + pod.Name,
		list(pod.Labels, pair),
		list(node.Annotations, pair),
		fmt.Sprintf("%d,%d,%d", pod.Priority, pod.Requests["cpu"], pod.Requests["memory"]),
		list(node.Pods, func(pod *berth.Pod) string { return pod.Namespace + "/" + pod.Name }),
	}
	if node.Name == "bare" {
		columns = append(columns,
			list(berth.Nodes(), func(node *berth.Node) string { return node.Name }),
			list(berth.Pods(), placement),
			strings.Join(slices.Sorted(maps.Keys(probe.followed)), ","))
	}
	return berth.Reject(strings.Join(columns, ";") + ";")
}
