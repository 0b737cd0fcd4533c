package berth

// Effect is an action that a plugin asks the scheduler to carry out: one of the types below. The operator must grant each
// kind of effect.
type Effect interface{ isEffect() }

// ObjectRef names an object. The kind is written `v1/ConfigMap`. The namespace is empty for kinds without namespaces.
type ObjectRef struct {
	Kind, Namespace, Name string
}

type (
	// Bind binds the pod of this cycle to the node chosen for it.
	Bind struct{}
	// Patch applies a JSON merge patch to an object. If the patch contains a `resourceVersion`, it fails if the object has
	// changed since that version.
	Patch struct {
		Object      ObjectRef
		Subresource string
		Body        []byte
		// Strategic says that Body is a strategic merge patch. It can change or remove single elements of a list. The API
		// server accepts it only for kinds that are built into Kubernetes.
		Strategic bool
	}
	// Create creates an object from JSON.
	Create struct {
		Kind, Namespace string
		Body            []byte
	}
	// Delete deletes an object.
	Delete struct{ Object ObjectRef }
	// Evict evicts a pod from its node.
	Evict struct {
		Pod     *Pod
		Message string
	}
	// Allow allows a pod that waits at Permit to continue.
	Allow struct{ UID string }
	// TurnDown rejects a pod that waits at Permit.
	TurnDown struct{ UID, Reason string }
	// Activate moves pods to activeQ.
	Activate struct{ UIDs []string }
	// Nominate sets a pod's `nominatedNodeName`; an empty Node clears it.
	Nominate struct{ UID, Node string }
	// WriteEvent writes a Kubernetes event about the pod of this cycle.
	WriteEvent struct {
		Warning              bool
		Reason, Action, Note string
	}
	// WaitFor waits until one of the objects changes, then the scheduler calls the method again. The attempt fails with
	// Message after Milliseconds. PreBind may return WaitFor. Permit may return WaitFor together with WaitMilliseconds. Objects may name
	// the pod itself, with the kind `v1/Pod`; the method then gets the changed pod. The manifest's Objects must name all other
	// kinds. WaitFor must be the last effect in the list.
	WaitFor struct {
		Objects      []ObjectRef
		Milliseconds uint64
		Message      string
	}
)

func (Bind) isEffect()       {}
func (Patch) isEffect()      {}
func (Create) isEffect()     {}
func (Delete) isEffect()     {}
func (Evict) isEffect()      {}
func (Allow) isEffect()      {}
func (TurnDown) isEffect()   {}
func (Activate) isEffect()   {}
func (Nominate) isEffect()   {}
func (WriteEvent) isEffect() {}
func (WaitFor) isEffect()    {}
