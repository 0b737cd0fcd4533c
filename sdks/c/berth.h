/* The SDK for Berth plugins in C. A plugin defines `berth_plugin` and is built with build.sh.
 *
 * The SDK keeps a replica of the node table and the pods of open scheduling cycles. A plugin answers for one node at a
 * time (`filter`, `score`) or for all nodes in one call (`filter_nodes`, `score_nodes`). `filter` is also called to
 * explain why a node was rejected, and in dry runs.
 *
 * Strings in the scheduler's tables are symbols. Symbols are small integers. They are equal if their strings are equal.
 * `berth_text` returns the string of a symbol, `berth_symbol` returns the symbol of a string. Both results are valid until
 * the call ends: copy a string that you keep.
 *
 * A trap (an access beyond memory, a division by zero, berth_panic) is a fault: the scheduler counts the fault and starts a
 * fresh instance, and a plugin that keeps faulting is rolled back or quarantined. Return berth_fail to fail one attempt
 * without a fault.
 *
 * Lines that the plugin prints go to the scheduler's log: stdout at level info, stderr at level error. A plugin that uses
 * clocks, files or the environment does not build. `rand` returns the same numbers in every instance. */
#ifndef BERTH_H
#define BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bindings that wit-bindgen generated. Their comments document the contract. */
#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef berth_scheduler_types_sym_t berth_sym;
typedef berth_scheduler_types_row_t berth_row;
/* The fields are those of `record pod` in wit/types.wit. */
typedef berth_scheduler_types_pod_t berth_pod;
/* A node before or after an event: the fields are those of `record node`. */
typedef berth_scheduler_types_node_t berth_node;
typedef berth_scheduler_types_taint_t berth_taint;
typedef berth_scheduler_types_host_port_t berth_host_port;

/* Symbols that are the same in every table. 0 is an absent value and the empty string. */
enum {
  BERTH_CPU = 1,
  BERTH_MEMORY = 2,
  BERTH_EPHEMERAL_STORAGE = 3,
  BERTH_PODS = 4,
};

/* The columns of the node table. */
enum {
  BERTH_COLUMN_NAME = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_NAME,
  BERTH_COLUMN_UNSCHEDULABLE = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_UNSCHEDULABLE,
  BERTH_COLUMN_LABELS = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_LABELS,
  BERTH_COLUMN_TAINTS = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_TAINTS,
  BERTH_COLUMN_ALLOCATABLE = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_ALLOCATABLE,
  BERTH_COLUMN_REQUESTED = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_REQUESTED,
  BERTH_COLUMN_NON_ZERO_REQUESTED = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_NON_ZERO_REQUESTED,
  BERTH_COLUMN_POD_COUNT = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_POD_COUNT,
  BERTH_COLUMN_IMAGES = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_IMAGES,
  BERTH_COLUMN_HOST_PORTS = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_HOST_PORTS,
  BERTH_COLUMN_DECLARED_FEATURES = 1 << EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_DECLARED_FEATURES,
};

/* The answer of a plugin about a pod, or about a node for the pod. */
typedef struct berth_verdict {
  berth_scheduler_types_code_t code;
  /* The reason for users; NULL if the node passes. It must live until the plugin is called again. */
  const char *reason;
} berth_verdict;

/* Accepts the pod or the node. */
berth_verdict berth_pass(void);
/* Rejects the pod or the node. The eviction of pods may help. */
berth_verdict berth_reject(const char *reason);
/* Rejects the pod or the node. The eviction of pods cannot help. */
berth_verdict berth_reject_unresolvable(const char *reason);

/* Rejects the pod until an event outside the scheduler. After that event, the pod skips its backoff. */
berth_verdict berth_pending(const char *reason);
/* Fails the attempt with this reason. The attempt is repeated after a backoff. The error counts in
 * `berth_plugin_errors_total`. It is not a fault, in contrast to a trap. */
berth_verdict berth_fail(const char *reason);
/* Says that the plugin has nothing to do for this pod. pre_filter, pre_score, pre_bind_pre_flight, pre_bind and bind may
 * return it. */
berth_verdict berth_skip(void);

/* Ends the call as a fault. The fault's reason is this message with the file and the line. */
#define berth_panic(message) berth_panic_at(message, __FILE_NAME__, __LINE__)
__attribute__((noreturn)) void berth_panic_at(const char *message, const char *file, unsigned line);

/* Actions that a plugin asks the scheduler to carry out. The functions below add effects. The operator must grant each kind
 * of effect. */
struct berth_effects {
  berth_scheduler_types_effect_t *items;
  size_t n;
};

/* The name of an object. The kind is written `v1/ConfigMap`. The namespace is "" for kinds without namespaces. */
struct berth_reference {
  const char *kind, *namespace, *name;
};

/* The reasons why no node passed. */
struct berth_failure {
  struct berth_rejection {
    berth_verdict verdict;
    berth_row *nodes;
    size_t n_nodes;
  } *rejections;
  size_t n_rejections;
  /* The rejection of all other nodes, if pre_filter rejected them or the pod. */
  bool has_absent;
  berth_verdict absent;
  /* The pods that are nominated to nodes. */
  struct berth_nomination {
    berth_row node;
    const berth_pod *pod;
  } *nominations;
  size_t n_nominations;
};

/* The result of a successful post_filter. */
struct berth_outcome {
  /* `nominates` nominates `node` for the pod. `clears` removes the pod's nomination. */
  bool nominates, clears;
  berth_row node;
  struct berth_effects effects;
};

/* The object of an event, before and after the event. A version that does not exist is NULL. All fields are NULL for an
 * object of a kind that `objects` does not name. */
struct berth_subject {
  const berth_pod *old_pod, *new_pod;
  const berth_node *old_node, *new_node;
  /* An object of another kind, and its JSON before and after the event. */
  struct berth_reference object;
  const char *old_json, *new_json;
};

struct berth_object_kind {
  const char *api_version, *kind;
};

/* A change in the cluster. The resource is `Pod`, `Node`, `PersistentVolumeClaim`, `<plural>.<version>.<group>` or `*`. The
 * actions are flags of BERTH_SCHEDULER_TYPES_ACTIONS_*. */
struct berth_cluster_event {
  const char *resource;
  uint16_t actions;
};

#define BERTH_ANY_ACTION 0x1FFF
/* All update actions. It is the only update action for kinds other than pods and nodes. */
#define BERTH_UPDATE (BERTH_ANY_ACTION & ~(BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_SCHEDULER_TYPES_ACTIONS_DELETE))

/* The data on which the answers for a pod depend. The interface `reuse` of the contract documents the details. */
struct berth_reach {
  enum {
    /* The answers may depend on any data. A plugin without `reach` always counts as this. */
    BERTH_REACH_CLUSTER,
    /* The answers depend only on the pod without its names, on the node's own columns, and on the data that `version`
     * stands for. The answers of pre_filter, pre_score and bind depend only on the pod and the version. */
    BERTH_REACH_ROW,
    /* The plugin has nothing to do for the pod: every node passes and scores 0. */
    BERTH_REACH_NOTHING,
    /* BERTH_REACH_NOTHING for a pod that changes no answer when it is on a node either: berth_pods may lack the pod. */
    BERTH_REACH_NOTHING_ANYWHERE,
    /* BERTH_REACH_NOTHING until a pod is placed on a node or nominated to a node, and `reach` has returned none of these
     * three values for such a pod. */
    BERTH_REACH_NOTHING_YET,
  } kind;
  uint64_t version;
};

#define BERTH_ERROR_SIZE 512

struct berth_plugin {
  /* The plugin's name in profiles. It must equal the file's name without `.wasm`. */
  const char *name;
  /* The version is shown to users. The scheduler does not compare versions. */
  const char *version;
  /* The parts of the node table that the plugin reads: flags of BERTH_COLUMN_*. */
  uint32_t columns;
  /* The keys of single labels that the plugin reads, ended by NULL. BERTH_COLUMN_LABELS requests all labels instead. */
  const char *const *label_keys;
  /* The keys of the annotations that the plugin reads, ended by NULL. */
  const char *const *annotation_keys;
  /* Requests the pods on nodes: berth_node_pods and berth_pods. */
  bool pods;
  /* Requests the whole JSON of pending pods. */
  bool pod_json;
  /* The kinds of which the plugin reads the whole objects, ended by {0}. The operator must grant each kind. */
  const struct berth_object_kind *objects;
  /* The events that may make a pod schedulable after this plugin rejected it, ended by {0}. NULL stands for any event. */
  const struct berth_cluster_event *events_to_register;

  /* Optional. Gets the args in the profile's pluginConfig as JSON, or `null` if the profile has none. See berth_json_*. To
   * refuse the args, write the reason to `error` and return false. */
  bool (*configure)(const char *args, char error[BERTH_ERROR_SIZE]);

  /* Optional. It is called once for each pod that is on the node or is being bound to it. It is called before any other
   * function sees the cluster with this pod. */
  void (*pod_placed)(const berth_pod *pod, berth_row node);
  /* Optional. It is called for each pod that left its node. If a pod changed, pod_removed gets the old pod, then pod_placed
   * gets the new one. Counts that both functions maintain are up to date at every other call. */
  void (*pod_removed)(const berth_pod *pod, berth_row node);

  /* Passes if the node can run the pod. */
  berth_verdict (*filter)(const berth_pod *pod, berth_row node);
  /* Returns 0 to 100, or any number if the plugin has `normalize`. */
  int64_t (*score)(const berth_pod *pod, berth_row node);
  /* Changes the scores of all nodes that passed to the range from 0 to 100, in place. */
  void (*normalize)(const berth_pod *pod, int64_t *scores, size_t n_scores);

  /* Optional. Filters all nodes in one call. Bit `i % 64` of word `i / 64` stands for row `i`: clear the bits of nodes that do
   * not pass. */
  void (*filter_nodes)(const berth_pod *pod, uint64_t *candidates, size_t n_words);
  /* Optional. Scores all nodes in one call: sets one score for each node, in the order of `nodes`. */
  void (*score_nodes)(const berth_pod *pod, const berth_row *nodes, size_t n_nodes, int64_t *scores);

  /* The functions of the other extension points. plugin.wit must export the interface of each function: pre-enqueue,
   * queue-sort, pre-filter, post-filter, pre-score, reserve, permit, pre-bind-pre-flight, pre-bind, bind, post-bind,
   * queueing-hint, sign, reuse, state, explain. */

  /* Passes if the pod may enter activeQ. */
  berth_verdict (*pre_enqueue)(const berth_pod *pod);
  /* Sets the pod's sort key. The pod with the smallest key comes first. `queued_at` is in milliseconds since 1970. */
  void (*sort_key)(const berth_pod *pod, int64_t queued_at, int64_t key[2]);
  /* It is called once for the pod, before `filter`. It may set `nodes` to the names of the only nodes to consider, ended by
   * NULL. After berth_skip, `filter` is not called. */
  berth_verdict (*pre_filter)(const berth_pod *pod, const char *const **nodes);
  /* It is called if no node passed. It sets `outcome`, or returns a rejection, after which the next plugin is called. See
   * berth_dry_run and berth_ask_extenders. */
  berth_verdict (*post_filter)(const berth_pod *pod, const struct berth_failure *failure, struct berth_outcome *outcome);
  /* It is called once for the pod, before `score`. After berth_skip, `score` is not called. */
  berth_verdict (*pre_score)(const berth_pod *pod, const berth_row *nodes, size_t n_nodes);
  /* Passes if the node still has the resources for the pod. */
  berth_verdict (*reserve)(const berth_pod *pod, berth_row node);
  /* Releases the reservation. It must do nothing if there is no reservation. It may add effects, for example to remove what
   * pre_bind wrote. */
  void (*unreserve)(const berth_pod *pod, berth_row node, struct berth_effects *effects);
  /* Passes if the pod may be bound. `milliseconds` is the maximum time for which permit holds the pod; 0 does not hold it. */
  berth_verdict (*permit)(const berth_pod *pod, berth_row node, uint64_t *milliseconds, struct berth_effects *effects);
  /* Says whether pre_bind will have something to do. It is asked before the wait at permit. It returns berth_skip if pre_bind
   * has nothing to do. Otherwise `allow_parallel` says whether pre_bind may run in parallel with the pre_bind of the plugins
   * next to this one. A plugin that has pre_bind without this function always counts as having something to do. */
  berth_verdict (*pre_bind_pre_flight)(const berth_pod *pod, berth_row node, bool *allow_parallel);
  /* Adds effects, or returns berth_skip if it has nothing to do. */
  berth_verdict (*pre_bind)(const berth_pod *pod, berth_row node, struct berth_effects *effects);
  /* Adds effects, or returns berth_skip to leave the pod to the next Bind plugin. */
  berth_verdict (*bind)(const berth_pod *pod, berth_row node, struct berth_effects *effects);
  /* It is called after the pod was bound. */
  void (*post_bind)(const berth_pod *pod, berth_row node);
  /* Returns true to retry the pod that the plugin rejected. The subject is the object of the event. */
  bool (*queueing_hint)(const berth_pod *pod, const char *resource, uint16_t actions, const struct berth_subject *subject);
  /* Returns the same string for all pods that get the same answers, or NULL. */
  const char *(*sign)(const berth_pod *pod);
  /* Says in the plugin's own words why it answers about the pod as it does. It is called only if a user asks, as with
   * `berth explain`. It returns one line about `*node`, or about the pod as a whole if `node` is NULL. NULL says nothing. The
   * text is cut after 1024 bytes. It must live until the plugin is called again. */
  const char *(*explain)(const berth_pod *pod, const berth_row *node);
  /* Says on which data the verdicts and scores for the pod depend, so that the scheduler may keep answers for pods that
   * differ only in their names. */
  struct berth_reach (*reach)(const berth_pod *pod);
  /* Returns the state of this version for the next version. The state must live until the plugin is called again. */
  const char *(*snapshot)(size_t *n_bytes);
  /* Gets the snapshot of the previous version. To refuse it, write the reason to `error` and return false. */
  bool (*restore)(const char *snapshot, size_t n_bytes, char error[BERTH_ERROR_SIZE]);
};

/* The plugin. Each plugin defines it. */
extern const struct berth_plugin berth_plugin;

/* Returns the text of a symbol. It is valid until the call ends: later the symbol may stand for another text. */
const char *berth_text(berth_sym symbol);
/* Returns the symbol of a text, or 0 if no object in the cluster contains the text. */
berth_sym berth_symbol(const char *text);

/* Returns all nodes of the cluster. The plugin must request columns or pods. The list is freed when the plugin is called
 * again. */
const berth_row *berth_nodes(size_t *n_nodes);
/* Returns all pods on nodes, including the pods that are being bound. The plugin must have `pods`, `pod_placed` or
 * `pod_removed`. The list is freed when the plugin is called again. */
const berth_pod *const *berth_pods(size_t *n_pods);
/* Returns the node of a pod that berth_pods or berth_node_pods returned. */
berth_row berth_pod_node(const berth_pod *pod);
/* Returns the value of a pod's label, or NULL. */
const char *berth_pod_label(const berth_pod *pod, const char *key);

/* Returns the whole pending pod as JSON, if the plugin has `pod_json`. Otherwise it returns NULL. The text is freed when the
 * plugin is called again. */
const char *berth_pod_json(const berth_pod *pod);

/* The columns of a node. A column that the plugin does not request is empty, and its first read is logged. */
const char *berth_node_name(berth_row node);
bool berth_node_unschedulable(berth_row node);
/* Returns the value of a label, or NULL. */
const char *berth_node_label(berth_row node, const char *key);
/* Says whether the node has a label, and sets `value` to the symbol of the label's value. `value` may be NULL. */
bool berth_node_has_label(berth_row node, berth_sym key, berth_sym *value);
/* Returns the value of an annotation, or NULL. */
const char *berth_node_annotation(berth_row node, const char *key);
/* Returns the pods on a node, in any order. */
const berth_pod *const *berth_node_pods(berth_row node, size_t *n_pods);
const berth_taint *berth_node_taints(berth_row node, size_t *n_taints);
int64_t berth_node_allocatable(berth_row node, berth_sym resource);
int64_t berth_node_requested(berth_row node, berth_sym resource);
int64_t berth_node_non_zero_milli_cpu(berth_row node);
int64_t berth_node_non_zero_memory(berth_row node);
int64_t berth_node_pod_count(berth_row node);
const berth_sym *berth_node_images(berth_row node, size_t *n_images);
const berth_host_port *berth_node_host_ports(berth_row node, size_t *n_ports);
const berth_sym *berth_node_declared_features(berth_row node, size_t *n_features);
/* Returns the size of an image in bytes, or 0 if no node has the image. */
int64_t berth_image_size(berth_sym image);

/* Joins strings. NULL ends the list, so a value that is NULL cuts the text off: check it first. In a debug build (BERTH_DEBUG=1)
 * such a value is a fault. The result is freed when the plugin is called again. */
__attribute__((sentinel)) const char *berth_concat(const char *first, ...);
#ifdef BERTH_DEBUG
const char *berth_concat_checked(const char *const *texts, size_t n, const char *file, unsigned line);
#endif
#ifdef BERTH_CHECKED_CALLS
#define berth_concat(...) \
  berth_concat_checked((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), \
                       __FILE_NAME__, __LINE__)
#endif
/* Converts a string of the contract, such as `pod->name`. The result is freed when the plugin is called again. */
const char *berth_string(const plugin_string_t *string);
/* Returns the number in decimal digits. The text is freed when the plugin is called again. */
const char *berth_decimal(int64_t value);
/* Sets `value` to the number in `text` and returns true, if `text` is a decimal integer between `least` and `most`. The
 * integer may have a sign. */
bool berth_integer(const char *text, int64_t least, int64_t most, int64_t *value);

/* The functions below read members of a JSON object by key. If `json` is NULL, the object has no members. */
enum berth_json { BERTH_JSON_ABSENT, BERTH_JSON_FOUND, BERTH_JSON_OTHER_TYPE };
/* Says whether `json` is an object or `null`. */
bool berth_json_is_object(const char *json);
/* Says whether `json` has only these keys. NULL ends the list of keys. If there is another key, `error` names it. `configure`
 * can thus refuse a misspelt argument. */
__attribute__((sentinel)) bool berth_json_only(const char *json, char error[BERTH_ERROR_SIZE], const char *first, ...);
/* The plugin owns the string: keep it, or `free` it. */
enum berth_json berth_json_string(const char *json, const char *key, const char **value);
enum berth_json berth_json_bool(const char *json, const char *key, bool *value);
enum berth_json berth_json_integer(const char *json, const char *key, int64_t *value);
enum berth_json berth_json_number(const char *json, const char *key, double *value);
/* Returns the member's value if it is an object, otherwise NULL. The result points into `json`, and the functions here accept
 * it: berth_json_string(berth_json_object(args, "quota"), "label", &label). */
const char *berth_json_object(const char *json, const char *key);
/* Returns the key after `after`; the first key after NULL; NULL after the last key. The key is freed when the plugin is called
 * again. */
const char *berth_json_next_key(const char *json, const char *after);

/* Returns the JSON of an object, or NULL. The plugin's `objects` must name the kind. */
const char *berth_object(const char *api_version, const char *kind, const char *namespace, const char *name);
struct berth_object {
  const char *api_version, *kind, *namespace, *name, *json;
};
/* Returns the object of a kind after `after`; the first object after NULL; NULL after the last object. The objects come in any
 * order. */
const struct berth_object *berth_next_object(const char *api_version, const char *kind, const struct berth_object *after);

/* Binds the pod of this cycle to the node chosen for it. */
void berth_bind(struct berth_effects *effects);
/* Applies a JSON merge patch to an object. If the patch contains a `resourceVersion`, it fails if the object has changed since
 * that version. `subresource` may be NULL. */
void berth_patch(struct berth_effects *effects, const char *kind, const char *namespace, const char *name,
                 const char *subresource, const char *json);
/* Applies a strategic merge patch. It can change or remove single elements of a list. The API server accepts it only for kinds
 * that are built into Kubernetes. */
void berth_strategic_patch(struct berth_effects *effects, const char *kind, const char *namespace, const char *name,
                           const char *subresource, const char *json);
/* Creates an object from JSON. */
void berth_create(struct berth_effects *effects, const char *kind, const char *namespace, const char *json);
/* Deletes an object. */
void berth_delete(struct berth_effects *effects, const char *kind, const char *namespace, const char *name);
/* Evicts a pod from its node. */
void berth_evict(struct berth_effects *effects, const berth_pod *pod, const char *message);
/* Allows a pod that waits at Permit to continue. */
void berth_allow(struct berth_effects *effects, const char *uid);
/* Rejects a pod that waits at Permit. */
void berth_turn_down(struct berth_effects *effects, const char *uid, const char *reason);
/* Moves pods to activeQ. NULL ends the list. */
void berth_activate(struct berth_effects *effects, const char *const *uids);
/* Sets a pod's `nominatedNodeName`; NULL clears it. */
void berth_nominate(struct berth_effects *effects, const char *uid, const char *node);
/* Writes a Kubernetes event about the pod of this cycle. */
void berth_event(struct berth_effects *effects, bool warning, const char *reason, const char *action, const char *note);
/* Waits until one of the objects changes, then the scheduler calls the function again. The attempt fails with the message after
 * `milliseconds`. pre_bind may add it, and so may permit together with its own `milliseconds`. The objects may include the pod
 * itself, with the kind `v1/Pod`; the function then gets the changed pod. The manifest's `objects` must name all other kinds.
 * The wait must be the last effect in the list. */
void berth_wait(struct berth_effects *effects, const struct berth_reference *objects, size_t n_objects,
                uint64_t milliseconds, const char *message);

/* A node without some of its pods. */
struct berth_removal {
  berth_row node;
  const berth_pod *const *pods;
  size_t n_pods;
};
/* Asks the profile's other Filter plugins about nodes without some of their pods. It sets one verdict for each case. Call it in
 * post_filter only. */
void berth_dry_run(const struct berth_removal *cases, size_t n_cases, berth_verdict *verdicts);

/* A node on which the pod fits after the eviction of the victims. */
struct berth_preemption {
  berth_row node;
  /* The pods to evict, the most important pod first. */
  const berth_pod *const *victims;
  size_t n_victims;
  /* The number of evictions that violate a disruption budget. */
  int64_t violations;
};
/* Asks the HTTP extenders that have a `preemptVerb`, and sets `agreed` to the preemptions that they keep. An extender may remove
 * nodes and name other victims on a node. Call it in post_filter only. If the verdict does not pass, an extender failed, and
 * post_filter must return this verdict. `agreed` is freed when the plugin is called again. */
berth_verdict berth_ask_extenders(const struct berth_preemption *asked, size_t n_asked,
                                  const struct berth_preemption **agreed, size_t *n_agreed);

/* Returns the time at the start of this cycle, in milliseconds since 1970. */
uint64_t berth_now(void);
/* Writes a line to the scheduler's log. The level is one of BERTH_SCHEDULER_HOST_LEVEL_*. */
void berth_log(berth_scheduler_host_level_t level, const char *message);
/* Adds to the counter `berth_plugin_custom_total{name}`. */
void berth_count(const char *name, uint64_t amount);

#ifdef __cplusplus
}
#endif

#endif
