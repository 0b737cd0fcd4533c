package guest

import (
	"fmt"
	"math"

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

// Effects converts the effects that a method of the plugin returned to the contract's types. It panics if one of them is none.
func Effects(method string, wanted []berth.Effect) []berth_scheduler_types.Effect {
	effects := make([]berth_scheduler_types.Effect, len(wanted))
	for i, effect := range wanted {
		made, isEffect := toEffect(effect)
		if !isEffect {
			panic(method + " gave the effect " + described(effect))
		}
		effects[i] = made
	}
	return effects
}

// IsTime says whether the number is a time in milliseconds. A negative number that was converted to uint64 is none.
func IsTime(milliseconds uint64) bool { return milliseconds <= math.MaxInt64 }

// described is the text of an effect that Berth cannot carry out.
func described(effect berth.Effect) string {
	switch it := effect.(type) {
	case nil:
		return "nil, which is none"
	case berth.Evict:
		return "berth.Evict, which has no Pod"
	case berth.WaitFor:
		return fmt.Sprintf("berth.WaitFor with Milliseconds %d, which is a negative number that was converted", it.Milliseconds)
	default:
		return fmt.Sprintf("%T, which is none of the types of package berth: return a value, not a pointer", it)
	}
}

// toEffect converts an effect, and says whether it is one.
func toEffect(effect berth.Effect) (berth_scheduler_types.Effect, bool) {
	switch it := effect.(type) {
	case berth.Bind:
		return berth_scheduler_types.MakeEffectBind(), true
	case berth.Patch:
		patchType := berth_scheduler_types.PatchType_Merge
		if it.Strategic {
			patchType = berth_scheduler_types.PatchType_StrategicMerge
		}
		return berth_scheduler_types.MakeEffectPatch(berth_scheduler_types.Patch{
			Object: object(it.Object), Subresource: optional(it.Subresource), Body: it.Body, PatchType: patchType,
		}), true
	case berth.Create:
		return berth_scheduler_types.MakeEffectCreate(berth_scheduler_types.NewObject{
			Kind: it.Kind, Namespace: it.Namespace, Body: it.Body,
		}), true
	case berth.Delete:
		return berth_scheduler_types.MakeEffectDelete(object(it.Object)), true
	case berth.Evict:
		if it.Pod == nil {
			break
		}
		pod := berth_scheduler_types.PodRef{Namespace: it.Pod.Namespace, Name: it.Pod.Name, Uid: it.Pod.UID}
		return berth_scheduler_types.MakeEffectEvict(berth_scheduler_types.Eviction{Pod: pod, Message: it.Message}), true
	case berth.Allow:
		return berth_scheduler_types.MakeEffectAllow(it.UID), true
	case berth.TurnDown:
		return berth_scheduler_types.MakeEffectReject(wit.Tuple2[string, string]{F0: it.UID, F1: it.Reason}), true
	case berth.Activate:
		return berth_scheduler_types.MakeEffectActivate(it.UIDs), true
	case berth.Nominate:
		return berth_scheduler_types.MakeEffectNominate(
			wit.Tuple2[string, wit.Option[string]]{F0: it.UID, F1: optional(it.Node)}), true
	case berth.WriteEvent:
		return berth_scheduler_types.MakeEffectEvent(berth_scheduler_types.Event{
			Warning: it.Warning, Reason: it.Reason, Action: it.Action, Note: it.Note,
		}), true
	case berth.WaitFor:
		if !IsTime(it.Milliseconds) {
			break
		}
		wait := berth_scheduler_types.Wait{TimeoutMs: it.Milliseconds, TimeoutMessage: it.Message}
		for _, ref := range it.Objects {
			wait.Objects = append(wait.Objects, object(ref))
		}
		return berth_scheduler_types.MakeEffectWait(wait), true
	}
	return berth_scheduler_types.Effect{}, false
}
