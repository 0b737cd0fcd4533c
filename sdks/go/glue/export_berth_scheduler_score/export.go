// Package export_berth_scheduler_score answers the interface score.
package export_berth_scheduler_score

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

type status = berth_scheduler_types.Status

func Score(cycle uint64, candidates []uint64) wit.Result[[]int64, status] {
	var scores []int64
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		nodes := guest.Nodes(candidates)
		if all, isBatch := berth.Registered().(berth.NodesScorer); isBatch {
			scores = all.ScoreNodes(pod, nodes)
			return
		}
		plugin := berth.Registered().(berth.Scorer)
		scores = make([]int64, len(nodes))
		for i, node := range nodes {
			scores[i] = plugin.Score(pod, node)
		}
	})
	return guest.Result(scores, failed)
}
