// Package export_berth_scheduler_post_filter answers the interface post-filter.
package export_berth_scheduler_post_filter

import (
	"berth"

	"wit_component/berth_scheduler_post_filter"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func PostFilter(
	cycle uint64, raw berth_scheduler_post_filter.Failure,
) wit.Result[berth_scheduler_post_filter.Outcome, berth_scheduler_types.Status] {
	answer := berth_scheduler_post_filter.Outcome{Nomination: berth_scheduler_post_filter.MakeNominationKeep()}
	failed := guest.Answer(cycle, func(pod *berth.Pod) {
		outcome, rejection := berth.Registered().(berth.PostFilterer).PostFilter(pod, toFailure(&raw))
		answer.Status = guest.Status(rejection)
		answer.Effects = guest.Effects("PostFilter", outcome.Effects)
		if outcome.Node != nil {
			answer.Nomination = berth_scheduler_post_filter.MakeNominationNode(outcome.Node.Row)
		} else if outcome.Clear {
			answer.Nomination = berth_scheduler_post_filter.MakeNominationClear()
		}
	})
	return guest.Result(answer, failed)
}

func toFailure(raw *berth_scheduler_post_filter.Failure) *berth.Failure {
	failure := &berth.Failure{}
	for _, rejected := range raw.Rejections {
		rejection := guest.Rejection(rejected.Status)
		nodes := guest.Nodes(rejected.Nodes)
		failure.Rejections = append(failure.Rejections, berth.NodesRejection{Rejection: rejection, Nodes: nodes})
	}
	if !raw.Absent.IsNone() {
		failure.Absent = guest.Rejection(raw.Absent.Some())
	}
	for i := range raw.Nominated {
		nomination := berth.Nomination{Node: guest.Node(raw.Nominated[i].F0), Pod: guest.Pod(&raw.Nominated[i].F1)}
		failure.Nominated = append(failure.Nominated, nomination)
	}
	return failure
}
