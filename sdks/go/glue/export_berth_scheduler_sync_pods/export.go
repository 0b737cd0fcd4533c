// Package export_berth_scheduler_sync_pods answers the interface sync-pods.
package export_berth_scheduler_sync_pods

import (
	"wit_component/berth_scheduler_sync_pods"
	"wit_component/guest"
)

func Place(pods []berth_scheduler_sync_pods.AlikePod) {
	guest.Run(func() { guest.PlaceAlike(pods) })
}

func SetUsage(_ uint64, usage []berth_scheduler_sync_pods.Usage) {
	guest.Run(func() { guest.SetUsage(usage) })
}
