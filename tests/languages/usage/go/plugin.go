// Package usage spells what the pods on a node use, and lets the scheduler keep that.
package usage

import (
	"fmt"

	"berth"
)

type plugin struct{}

func init() { berth.Register(plugin{}) }

func (plugin) Describe() berth.Manifest {
	columns := []berth.Column{berth.Requested, berth.NonZeroRequested, berth.PodCount}
	return berth.Manifest{Name: "Usage", Version: "0.1.0", Columns: columns}
}

func (plugin) Filter(pod *berth.Pod, node *berth.Node) *berth.Rejection {
	if pod.Priority > 0 {
		return nil
	}
	requested := node.Requested
	return berth.Reject(fmt.Sprintf("%d,%d,%d,%d,%d,%d", requested["cpu"], requested["memory"],
		requested["example.com/gpu"], node.NonZeroMilliCPU, node.NonZeroMemory, node.PodCount))
}

func (plugin) Reach(pod *berth.Pod) berth.Reach {
	if pod.Priority > 0 {
		return berth.ReachNothing
	}
	return berth.ReachRow(7)
}
