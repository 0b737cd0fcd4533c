package guest

import (
	"slices"

	"berth"

	witTypes "wit_component/abi"
	"wit_component/berth_scheduler_types"
)

func removePod(slot uint32) {
	if int(slot) >= len(placed) || placed[slot] == nil {
		return
	}
	pod := placed[slot]
	placed[slot] = nil
	pod.Node.Pods = slices.DeleteFunc(pod.Node.Pods, func(other *berth.Pod) bool { return other == pod })
	if follower, follows := berth.Registered().(berth.PodFollower); follows {
		follower.PodRemoved(pod, pod.Node)
	}
}

// Tried returns the pods that a dry run may name: the first pods of the cycle's previous dry run, and more.
func Tried(cycle uint64, keep uint32, more []berth_scheduler_types.Pod) []*berth.Pod {
	open := cycles[cycle]
	open.tried = open.tried[:keep]
	for i := range more {
		open.tried = append(open.tried, Pod(&more[i]))
	}
	return open.tried
}

// Altered returns a copy of a node, without some of the node's pods and with additional pods.
func Altered(row uint32, pods []*berth.Pod, minus, plus []uint32) *berth.Node {
	if len(minus) == 0 && len(plus) == 0 {
		return Node(row)
	}
	node := *Node(row)
	node.Pods = slices.Clone(node.Pods)
	node.HostPorts = slices.Clone(node.HostPorts)
	requested := node.Requested
	node.Requested = make(map[string]int64, len(requested))
	for name, amount := range requested {
		node.Requested[name] = amount
	}
	for _, index := range minus {
		pod := pods[index]
		node.Pods = slices.DeleteFunc(node.Pods, func(other *berth.Pod) bool { return other.UID == pod.UID })
		count(&node, pod, -1)
		for _, port := range pod.HostPorts {
			if at := slices.Index(node.HostPorts, port); at >= 0 {
				node.HostPorts = slices.Delete(node.HostPorts, at, at+1)
			}
		}
	}
	for _, index := range plus {
		pod := pods[index]
		node.Pods = append(node.Pods, pod)
		count(&node, pod, 1)
		node.HostPorts = append(node.HostPorts, pod.HostPorts...)
	}
	return &node
}

func count(node *berth.Node, pod *berth.Pod, sign int64) {
	node.PodCount += sign
	node.NonZeroMilliCPU += sign * pod.NonZeroMilliCPU
	node.NonZeroMemory += sign * pod.NonZeroMemory
	for name, amount := range pod.PlacedRequests {
		node.Requested[name] += sign * amount
	}
}

// Pod converts a pod of the contract. The result has strings instead of symbols.
func Pod(pod *berth_scheduler_types.Pod) *berth.Pod {
	return &berth.Pod{
		UID: pod.Uid, Namespace: text(pod.Namespace), Name: pod.Name, Priority: pod.Priority,
		Labels: toPairs(pod.Labels), Owner: toOwner(pod.Owner), Images: toTexts(pod.Images), HostPorts: toPorts(pod.HostPorts),
		Requests: toAmounts(&pod.Requests), PlacedRequests: toAmounts(&pod.PlacedRequests),
		NonZeroMilliCPU: pod.PlacedNonZero.MilliCpu, NonZeroMemory: pod.PlacedNonZero.Memory,
		JSON: pod.Json.SomeOr(nil),
	}
}

func toOwner(owner witTypes.Option[berth_scheduler_types.Owner]) *berth.Owner {
	if owner.IsNone() {
		return nil
	}
	it := owner.Some()
	return &berth.Owner{APIVersion: it.ApiVersion, Kind: it.Kind, Name: it.Name, UID: it.Uid}
}

// presentAmounts returns the amounts that are not 0, because columns have no other amounts.
func presentAmounts(resources *berth_scheduler_types.Resources) map[string]int64 {
	byName := toAmounts(resources)
	for name, amount := range byName {
		if amount == 0 {
			delete(byName, name)
		}
	}
	return byName
}

func toAmounts(resources *berth_scheduler_types.Resources) map[string]int64 {
	byName := map[string]int64{
		"cpu": resources.MilliCpu, "memory": resources.Memory, "ephemeral-storage": resources.EphemeralStorage,
	}
	for _, scalar := range resources.Scalars {
		byName[text(scalar.F0)] = scalar.F1
	}
	return byName
}
