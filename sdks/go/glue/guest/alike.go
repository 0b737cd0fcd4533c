package guest

import "wit_component/berth_scheduler_sync_pods"

// PlaceAlike places pods on nodes. Each pod equals a placed pod, except for the fields in AlikePod.
func PlaceAlike(pods []berth_scheduler_sync_pods.AlikePod) {
	for _, alike := range pods {
		pod := *placed[alike.Like]
		pod.UID, pod.Name = alike.Uid, alike.Name
		putPod(&pod, alike.Slot, alike.Node)
	}
}

// SetUsage sets new values of the usage of pods on nodes.
func SetUsage(usage []berth_scheduler_sync_pods.Usage) {
	for i := range usage {
		change := &usage[i]
		node := nodes[change.Node]
		if !change.Requested.IsNone() {
			requested := change.Requested.Some()
			node.Requested = presentAmounts(&requested)
		}
		if !change.NonZeroRequested.IsNone() {
			used := change.NonZeroRequested.Some()
			node.NonZeroMilliCPU, node.NonZeroMemory = used.MilliCpu, used.Memory
		}
		node.PodCount = change.PodCount.SomeOr(node.PodCount)
	}
}
