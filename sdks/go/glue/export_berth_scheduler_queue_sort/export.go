// Package export_berth_scheduler_queue_sort answers the interface queue-sort.
package export_berth_scheduler_queue_sort

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"
)

func SortKey(raw berth_scheduler_types.Pod, queuedAt int64) (first, second int64) {
	guest.Run(func() {
		first, second = berth.Registered().(berth.QueueSorter).SortKey(guest.Pod(&raw), queuedAt)
	})
	return first, second
}
