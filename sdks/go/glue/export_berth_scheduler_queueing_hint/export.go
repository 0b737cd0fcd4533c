// Package export_berth_scheduler_queueing_hint answers the interface queueing-hint.
package export_berth_scheduler_queueing_hint

import (
	"berth"

	hint "wit_component/berth_scheduler_queueing_hint"
	"wit_component/berth_scheduler_types"
	"wit_component/guest"

	wit "wit_component/abi"
)

func QueueingHint(
	raw berth_scheduler_types.Pod, event berth_scheduler_types.ClusterEvent, subject hint.EventSubject,
) uint8 {
	var isWorthIt bool
	guest.Run(func() {
		named := berth.Event{Resource: event.Resource, Actions: berth.Actions(event.Actions)}
		isWorthIt = berth.Registered().(berth.Hinter).QueueingHint(guest.Pod(&raw), named, toSubject(subject))
	})
	if isWorthIt {
		return hint.Hint_Queue
	}
	return hint.Hint_Skip
}

func toSubject(subject hint.EventSubject) (shown berth.Subject) {
	switch subject.Tag() {
	case hint.EventSubject_Pod:
		change := subject.Pod()
		shown.OldPod, shown.NewPod = optional(change.Old, guest.Pod), optional(change.New, guest.Pod)
	case hint.EventSubject_Node:
		change := subject.Node()
		shown.OldNode, shown.NewNode = optional(change.Old, guest.EventNode), optional(change.New, guest.EventNode)
	case hint.EventSubject_Object:
		change := subject.Object()
		shown.Object = berth.ObjectRef{
			Kind: change.Object.Kind, Namespace: change.Object.Namespace, Name: change.Object.Name,
		}
		shown.OldJSON, shown.NewJSON = change.Old.SomeOr(nil), change.New.SomeOr(nil)
	}
	return shown
}

func optional[Raw, Shown any](raw wit.Option[Raw], decode func(*Raw) *Shown) *Shown {
	if raw.IsNone() {
		return nil
	}
	value := raw.Some()
	return decode(&value)
}
