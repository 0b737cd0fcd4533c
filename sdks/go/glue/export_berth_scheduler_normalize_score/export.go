// Package export_berth_scheduler_normalize_score answers the interface normalize-score.
package export_berth_scheduler_normalize_score

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

type status = berth_scheduler_types.Status

func NormalizeScore(cycle uint64, nodes []uint64, scores []int64) wit.Result[[]int64, status] {
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		berth.Registered().(berth.Normalizer).Normalize(pod, scores)
	})
	return guest.Result(scores, failed)
}
