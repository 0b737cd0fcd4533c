package berth

// PreEnqueuer keeps pods out of activeQ.
type PreEnqueuer interface {
	// PreEnqueue gives nil if the pod may be scheduled.
	PreEnqueue(pod *Pod) *Rejection
}

// QueueSorter orders activeQ.
type QueueSorter interface {
	// SortKey is the pod's place: smaller comes first. queuedAt is milliseconds since 1970.
	SortKey(pod *Pod, queuedAt int64) (first, second int64)
}

// PodFollower is told which pods are on nodes, so that counts which follow both are up to date at every call.
type PodFollower interface {
	// PodPlaced is for a pod that came to a node, or is about to: it is being bound. Called for each pod once, before anything
	// is asked about the cluster that has it.
	PodPlaced(pod *Pod, node *Node)
	// PodRemoved is for one that left. A pod that changed is removed, as it was, and placed.
	PodRemoved(pod *Pod, node *Node)
}

// PreFilterer looks at the pod once, before any node.
type PreFilterer interface {
	// PreFilter gives the names of the nodes that are left, or nil for all. [Skip] means that Filter is not asked.
	PreFilter(pod *Pod) (nodes []string, rejection *Rejection)
}

// PostFilterer is asked when no node passed.
type PostFilterer interface {
	// PostFilter gives a rejection to pass on to the next plugin. See [DryRun] and [AskExtenders].
	PostFilter(pod *Pod, failure *Failure) (Outcome, *Rejection)
}

// Failure is why no node passed.
type Failure struct {
	Rejections []NodesRejection
	// Absent is for all other nodes, when PreFilter turned them or the pod down.
	Absent *Rejection
	// Nominated are pods that hold a nomination.
	Nominated []Nomination
}

// NodesRejection is a rejection and the nodes that it is about.
type NodesRejection struct {
	Rejection *Rejection
	Nodes     []*Node
}

// Nomination is a node and the pod that is nominated to it.
type Nomination struct {
	Node *Node
	Pod  *Pod
}

// Outcome is what PostFilter has come to.
type Outcome struct {
	// Node is to be nominated, if there is one.
	Node *Node
	// Clear the pod's nomination.
	Clear   bool
	Effects []Effect
}

// PreScorer prepares scoring.
type PreScorer interface {
	// PreScore gives nil, or [Skip]: Score is not asked.
	PreScore(pod *Pod, nodes []*Node) *Rejection
}

// Reserver counts something of its own.
type Reserver interface {
	// Reserve gives nil if the node still has what the pod wants.
	Reserve(pod *Pod, node *Node) *Rejection
	// Unreserve must bear being called without a reservation.
	Unreserve(pod *Pod, node *Node)
}

// Permitter has the last word before binding.
type Permitter interface {
	Permit(pod *Pod, node *Node) Verdict
}

// Verdict lets the pod go on, if it is empty.
type Verdict struct {
	// WaitMilliseconds holds the pod for at most so long.
	WaitMilliseconds uint64
	Deny             *Rejection
	Effects          []Effect
}

// PreFlighter says before Permit is waited for whether PreBind will have something to do. A plugin without it always has.
type PreFlighter interface {
	// PreBindPreFlight gives [Skip] if PreBind need not be called, else whether it may run side by side with the PreBind of
	// the plugins next to it.
	PreBindPreFlight(pod *Pod, node *Node) (allowParallel bool, rejection *Rejection)
}

// PreBinder does what must be done before the pod is bound.
type PreBinder interface {
	// PreBind gives [Skip] if there is nothing to do.
	PreBind(pod *Pod, node *Node) ([]Effect, *Rejection)
}

// Binder binds pods.
type Binder interface {
	// Bind gives [Skip] for a pod of another plugin.
	Bind(pod *Pod, node *Node) ([]Effect, *Rejection)
}

// PostBinder is told after the pod was bound.
type PostBinder interface {
	PostBind(pod *Pod, node *Node)
}

// Hinter decides whether an event is worth another attempt of a pod that the plugin rejected.
type Hinter interface {
	QueueingHint(pod *Pod, event Event, subject Subject) bool
}

// Subject is what an event happened to, before and after; nil where it does not exist. Everything is empty for an object
// of a kind that the manifest's Objects don't name.
type Subject struct {
	OldPod, NewPod *Pod
	// Row stays 0. The nodes have the columns Name, Unschedulable, Labels, Taints, Allocatable and DeclaredFeatures, whether
	// the manifest asks for them or not.
	OldNode, NewNode *Node
	// An object of another kind, and its JSON.
	Object           ObjectRef
	OldJSON, NewJSON []byte
}

// Signer lets the scheduler reuse answers.
type Signer interface {
	// Sign gives what pods with the same answers share, or false.
	Sign(pod *Pod) (string, bool)
}

// Reuser lets the scheduler keep answers for pods that differ in their names alone.
type Reuser interface {
	// Reach says what verdicts and scores about such pods follow from. `reuse` in the contract has the whole of it.
	Reach(pod *Pod) Reach
}

// Reach is how far answers reach: one of [ReachCluster], [ReachNothing], [ReachNothingAnywhere], [ReachNothingYet], or [ReachRow].
type Reach struct {
	Kind    ReachKind
	Version uint64
}

// ReachKind is a kind of [Reach].
type ReachKind uint8

// The kinds.
const (
	ReachKindCluster ReachKind = iota
	ReachKindRow
	ReachKindNothing
	ReachKindNothingAnywhere
	ReachKindNothingYet
)

var (
	// ReachCluster is for answers that follow from anything.
	ReachCluster = Reach{}
	// ReachNothing is for pods that the plugin has nothing to do with: every node passes and scores 0.
	ReachNothing = Reach{Kind: ReachKindNothing}
	// ReachNothingAnywhere is for such pods that make no difference on nodes either: [Pods] may lack them.
	ReachNothingAnywhere = Reach{Kind: ReachKindNothingAnywhere}
	// ReachNothingYet is as [ReachNothing], until a pod comes to a node with which the plugin may have something to do.
	ReachNothingYet = Reach{Kind: ReachKindNothingYet}
)

// ReachRow is for answers that follow from such a pod, from the node's own columns, and from what the version stands for; those
// about the pod alone from the pod and the version.
func ReachRow(version uint64) Reach { return Reach{Kind: ReachKindRow, Version: version} }

// Stateful is a plugin that hands something to its next version.
type Stateful interface {
	Snapshot() []byte
	Restore(snapshot []byte) error
}

// Actions are what happened to an object.
type Actions uint16

// The actions, as kube-scheduler names them.
const (
	Add Actions = 1 << iota
	Deleted
	UpdateNodeAllocatable
	UpdateNodeLabel
	UpdateNodeTaint
	UpdateNodeCondition
	UpdateNodeAnnotation
	UpdateNodeDeclaredFeature
	UpdatePodLabel
	UpdatePodScaleDown
	UpdatePodToleration
	UpdatePodSchedulingGatesEliminated
	UpdatePodGeneratedResourceClaim
	// AnyAction is all of them.
	AnyAction Actions = 1<<13 - 1
	// Update is every update: the only one that kinds besides pods and nodes have.
	Update = AnyAction &^ (Add | Deleted)
)

// Event is something that happened: the resource is `Pod`, `Node`, `PersistentVolumeClaim`, `<plural>.<version>.<group>`
// or `*`.
type Event struct {
	Resource string
	Actions  Actions
}
