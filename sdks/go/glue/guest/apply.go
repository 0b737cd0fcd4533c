package guest

import (
	"berth"

	sync "wit_component/berth_scheduler_sync"
)

// Apply applies a delta to the replica.
func Apply(delta *sync.Delta) {
	if delta.Full {
		for slot := range placed {
			removePod(uint32(slot))
		}
	}
	for _, slot := range delta.PodsRemoved {
		removePod(slot)
	}
	for _, symbol := range delta.Symbols {
		for int(symbol.F0) >= len(texts) {
			texts = append(texts, "")
		}
		// The symbol may have stood for another string, which no object of the cluster contains any more.
		delete(imageSizes, texts[symbol.F0])
		texts[symbol.F0] = symbol.F1
	}
	if delta.Full {
		nodes = nil
		clear(taintSets)
		clear(imageSizes)
		clear(objects)
	}
	for _, row := range delta.Removed {
		// A node may have come and gone since the last delta.
		if int(row) < len(nodes) {
			nodes[row] = nil
		}
	}
	for _, row := range delta.Added {
		for int(row) >= len(nodes) {
			nodes = append(nodes, nil)
		}
		if nodes[row] == nil {
			nodes[row] = newNode(row)
		}
	}
	for _, set := range delta.TaintSets {
		taintSets[set.F0] = toTaints(set.F1)
	}
	for _, change := range delta.Columns {
		applyColumn(change.Rows, change.Data)
	}
	for i := range delta.PodsPlaced {
		placePod(&delta.PodsPlaced[i])
	}
	for _, image := range delta.ImageSizes {
		imageSizes[text(image.F0)] = image.F1
	}
	for _, object := range delta.Objects {
		applyObject(&object)
	}
}

func applyObject(object *sync.Object) {
	kind := berth.ObjectKind{APIVersion: object.ApiVersion, Kind: object.Kind}
	key := berth.ObjectKey{Namespace: object.Namespace, Name: object.Name}
	if object.Json.IsNone() {
		delete(objects[kind], key)
		return
	}
	if objects[kind] == nil {
		objects[kind] = map[berth.ObjectKey][]byte{}
	}
	objects[kind][key] = object.Json.Some()
}

// applyColumn skips columns that only a newer scheduler knows. The SDK never requests such columns.
func applyColumn(rows []uint32, data sync.ColumnData) {
	switch data.Tag() {
	case sync.ColumnData_Name:
		names := data.Name()
		each(rows, func(i int, node *berth.Node) { node.Name = text(names[i]) })
	case sync.ColumnData_Unschedulable:
		flags := data.Unschedulable()
		each(rows, func(i int, node *berth.Node) { node.Unschedulable = flags[i] })
	case sync.ColumnData_Labels:
		lists := data.Labels()
		eachList(rows, lists.Ends, func(from, to uint32, node *berth.Node) {
			node.Labels = labels(node.Row, toPairs(lists.Items[from:to]))
		})
	case sync.ColumnData_Taints:
		ids := data.Taints()
		each(rows, func(i int, node *berth.Node) { node.Taints = taintSets[ids[i]] })
	case sync.ColumnData_Allocatable:
		columns := data.Allocatable()
		each(rows, func(i int, node *berth.Node) { node.Allocatable = amounts(&columns, i) })
	case sync.ColumnData_Requested:
		columns := data.Requested()
		each(rows, func(i int, node *berth.Node) { node.Requested = amounts(&columns, i) })
	case sync.ColumnData_NonZeroRequested:
		columns := data.NonZeroRequested()
		each(rows, func(i int, node *berth.Node) {
			node.NonZeroMilliCPU, node.NonZeroMemory = columns.MilliCpu[i], columns.Memory[i]
		})
	case sync.ColumnData_PodCount:
		counts := data.PodCount()
		each(rows, func(i int, node *berth.Node) { node.PodCount = counts[i] })
	case sync.ColumnData_Images:
		lists := data.Images()
		eachList(rows, lists.Ends, func(from, to uint32, node *berth.Node) { node.Images = toTexts(lists.Items[from:to]) })
	case sync.ColumnData_HostPorts:
		lists := data.HostPorts()
		eachList(rows, lists.Ends, func(from, to uint32, node *berth.Node) { node.HostPorts = toPorts(lists.Items[from:to]) })
	case sync.ColumnData_Annotations:
		all := data.Annotations()
		each(rows, func(i int, node *berth.Node) {
			pairs := make(berth.Pairs, len(all[i]))
			for at, pair := range all[i] {
				pairs[at] = berth.Pair{Key: pair.F0, Value: pair.F1}
			}
			node.Annotations = annotations(node.Row, pairs)
		})
	case sync.ColumnData_DeclaredFeatures:
		lists := data.DeclaredFeatures()
		eachList(rows, lists.Ends, func(from, to uint32, node *berth.Node) {
			node.DeclaredFeatures = toTexts(lists.Items[from:to])
		})
	}
}

func each(rows []uint32, set func(i int, node *berth.Node)) {
	for i, row := range rows {
		set(i, nodes[row])
	}
}

// eachList calls set for the list of each row. The lists lie one after the other in one slice.
func eachList(rows, ends []uint32, set func(from, to uint32, node *berth.Node)) {
	from := uint32(0)
	for i, row := range rows {
		set(from, ends[i], nodes[row])
		from = ends[i]
	}
}

func amounts(columns *sync.ResourceColumns, i int) map[string]int64 {
	byName := map[string]int64{}
	for c, name := range columns.Names {
		if amount := columns.Values[c][i]; amount != 0 {
			byName[text(name)] = amount
		}
	}
	return byName
}

func placePod(change *sync.PlacedPod) { putPod(Pod(&change.Pod), change.Slot, change.Node) }

func putPod(pod *berth.Pod, slot, row uint32) {
	if int(row) >= len(nodes) || nodes[row] == nil {
		return
	}
	for int(slot) >= len(placed) {
		placed = append(placed, nil)
	}
	node := nodes[row]
	pod.Slot, pod.Node = slot, node
	placed[slot] = pod
	node.Pods = append(node.Pods, pod)
	if follower, follows := berth.Registered().(berth.PodFollower); follows {
		follower.PodPlaced(pod, node)
	}
}
