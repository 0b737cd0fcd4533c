// Package export_berth_scheduler_sign answers the interface sign.
package export_berth_scheduler_sign

import (
	"berth"

	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func Sign(raw berth_scheduler_types.Pod) wit.Option[string] {
	signature := wit.None[string]()
	guest.Run(func() {
		if text, isSigned := berth.Registered().(berth.Signer).Sign(guest.Pod(&raw)); isSigned {
			signature = wit.Some(text)
		}
	})
	return signature
}
