// Package export_berth_scheduler_score answers the interface score.
package export_berth_scheduler_score

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

type status = berth_scheduler_types.Status

func Score(cycle uint64, candidates []uint64) wit.Result[[]int64, status] {
	var scores []int64
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		if all, isBatch := berth.Registered().(berth.NodesScorer); isBatch {
			scores = all.ScoreNodes(pod, guest.Nodes(candidates))
			return
		}
		plugin := berth.Registered().(berth.Scorer)
		scores = make([]int64, 0, guest.Count(candidates))
		for node := range guest.All(candidates) {
			scores = append(scores, plugin.Score(pod, node))
		}
	})
	return guest.Result(scores, failed)
}
