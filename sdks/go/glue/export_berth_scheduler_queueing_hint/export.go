// Package export_berth_scheduler_queueing_hint answers the interface queueing-hint.
package export_berth_scheduler_queueing_hint

import (
	"berth"

	"wit_component/berth_scheduler_queueing_hint"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "go.bytecodealliance.org/pkg/wit/types"
)

func QueueingHint(
	raw berth_scheduler_types.Pod, event berth_scheduler_types.ClusterEvent, old, changed wit.Option[[]uint8],
) uint8 {
	isWorthIt := true
	guest.Try(func() {
		named := berth.Event{Resource: event.Resource, Actions: berth.Actions(event.Actions)}
		hinter := berth.Registered().(berth.Hinter)
		isWorthIt = hinter.QueueingHint(guest.Pod(&raw), named, old.SomeOr(nil), changed.SomeOr(nil))
	})
	if isWorthIt {
		return berth_scheduler_queueing_hint.Hint_Queue
	}
	return berth_scheduler_queueing_hint.Hint_Skip
}
