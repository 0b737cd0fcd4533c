// Package export_berth_scheduler_filter answers the interface filter.
package export_berth_scheduler_filter

import (
	"berth"

	"wit_component/berth_scheduler_filter"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

type status = berth_scheduler_types.Status

func plugin() berth.Filterer { return berth.Registered().(berth.Filterer) }

func Filter(cycle uint64, candidates []uint64) wit.Result[[]uint64, status] {
	passed := make([]uint64, len(candidates))
	failed := guest.Check(cycle, func(pod *berth.Pod) *berth.Rejection {
		if all, isBatch := berth.Registered().(berth.NodesFilterer); isBatch {
			for _, node := range all.FilterNodes(pod, guest.Nodes(candidates)) {
				guest.Insert(passed, node)
			}
			return nil
		}
		plugin := plugin()
		for node := range guest.All(candidates) {
			rejection := plugin.Filter(pod, node)
			if rejection == nil {
				guest.Insert(passed, node)
			} else if rejection.Code == berth.ErrorCode {
				return rejection
			}
		}
		return nil
	})
	return guest.Result(passed, failed)
}

func NodeToStatus(cycle uint64, rejected []uint64) wit.Result[[]berth_scheduler_types.RejectedNodes, status] {
	var groups []berth_scheduler_types.RejectedNodes
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		plugin := plugin()
		known := map[berth.Rejection]int{}
		for node := range guest.All(rejected) {
			rejection := plugin.Filter(pod, node)
			if rejection == nil {
				continue
			}
			group, isKnown := known[*rejection]
			if !isKnown {
				group = len(groups)
				known[*rejection] = group
				groups = append(groups, berth_scheduler_types.RejectedNodes{
					Status: guest.Status(rejection), Nodes: make([]uint64, len(rejected)),
				})
			}
			guest.Insert(groups[group].Nodes, node)
		}
	})
	return guest.Result(groups, failed)
}

func DryRun(
	cycle uint64, keep uint32, pods []berth_scheduler_types.Pod, cases []berth_scheduler_filter.DryRunCase,
) wit.Result[[]status, status] {
	statuses := make([]status, len(cases))
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		plugin := plugin()
		tried := guest.Tried(cycle, keep, pods)
		for i := range cases {
			node := guest.Altered(cases[i].Node, tried, cases[i].Minus, cases[i].Plus)
			statuses[i] = guest.Status(plugin.Filter(pod, node))
		}
	})
	return guest.Result(statuses, failed)
}
