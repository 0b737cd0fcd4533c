package guest

import (
	"berth"

	"wit_component/berth_scheduler_types"

	wit "wit_component/abi"
)

func optional(text string) wit.Option[string] {
	if text == "" {
		return wit.None[string]()
	}
	return wit.Some(text)
}

func object(ref berth.ObjectRef) berth_scheduler_types.ObjectRef {
	return berth_scheduler_types.ObjectRef{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// Effects converts the effects of a plugin to the contract's types.
func Effects(wanted []berth.Effect) []berth_scheduler_types.Effect {
	effects := make([]berth_scheduler_types.Effect, len(wanted))
	for i, effect := range wanted {
		effects[i] = toEffect(effect)
	}
	return effects
}

func toEffect(effect berth.Effect) berth_scheduler_types.Effect {
	switch it := effect.(type) {
	case berth.Bind:
		return berth_scheduler_types.MakeEffectBind()
	case berth.Patch:
		return berth_scheduler_types.MakeEffectPatch(berth_scheduler_types.Patch{
			Object: object(it.Object), Subresource: optional(it.Subresource), Body: it.Body,
		})
	case berth.Create:
		return berth_scheduler_types.MakeEffectCreate(berth_scheduler_types.NewObject{
			Kind: it.Kind, Namespace: it.Namespace, Body: it.Body,
		})
	case berth.Delete:
		return berth_scheduler_types.MakeEffectDelete(object(it.Object))
	case berth.Evict:
		pod := berth_scheduler_types.PodRef{Namespace: it.Pod.Namespace, Name: it.Pod.Name, Uid: it.Pod.UID}
		return berth_scheduler_types.MakeEffectEvict(berth_scheduler_types.Eviction{Pod: pod, Message: it.Message})
	case berth.Allow:
		return berth_scheduler_types.MakeEffectAllow(it.UID)
	case berth.TurnDown:
		return berth_scheduler_types.MakeEffectReject(wit.Tuple2[string, string]{F0: it.UID, F1: it.Reason})
	case berth.Activate:
		return berth_scheduler_types.MakeEffectActivate(it.UIDs)
	case berth.Nominate:
		return berth_scheduler_types.MakeEffectNominate(
			wit.Tuple2[string, wit.Option[string]]{F0: it.UID, F1: optional(it.Node)})
	case berth.WriteEvent:
		return berth_scheduler_types.MakeEffectEvent(berth_scheduler_types.Event{
			Warning: it.Warning, Reason: it.Reason, Action: it.Action, Note: it.Note,
		})
	case berth.WaitFor:
		wait := berth_scheduler_types.Wait{TimeoutMs: it.Milliseconds, TimeoutMessage: it.Message}
		for _, ref := range it.Objects {
			wait.Objects = append(wait.Objects, object(ref))
		}
		return berth_scheduler_types.MakeEffectWait(wait)
	}
	panic("an unknown effect")
}
