/* Write a Berth plugin in C: define `berth_plugin`, and build with build.sh.
 *
 * The SDK keeps a replica of the node table and the pods of open scheduling cycles. A plugin answers for one node at a
 * time (`filter`, `score`) or for all at once (`filter_nodes`, `score_nodes`); why a node was rejected, and what a dry
 * run asks, is always answered by `filter`.
 *
 * Strings in the scheduler's tables are symbols: small integers, equal when the strings are. `berth_text` gives the
 * string of a symbol, `berth_symbol` the symbol of a string. Both hold during a call: copy a string that you keep.
 *
 * A trap (an access beyond memory, a division by zero, berth_panic) is a fault: the scheduler counts it and starts a fresh
 * instance, and a plugin that keeps faulting is rolled back or quarantined. Answer berth_fail to fail one attempt and go on.
 *
 * What is printed to stdout or stderr goes to the scheduler's log, line by line: at level info, and at level error. A plugin that
 * uses clocks, files or the environment does not build. `rand` builds, and gives the same numbers in every instance. */
#ifndef BERTH_H
#define BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What wit-bindgen wrote for the contract; its comments are the contract's manual. */
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

/* The parts of the node table that a plugin can ask for. */
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

/* What a plugin says about a pod on a node. */
typedef struct berth_verdict {
  berth_scheduler_types_code_t code;
  /* What users read; NULL where the node passes. Must live until the plugin is called again. */
  const char *reason;
} berth_verdict;

/* The node can run the pod. */
berth_verdict berth_pass(void);
/* It cannot; evicting pods may help. */
berth_verdict berth_reject(const char *reason);
/* It cannot, whatever is evicted. */
berth_verdict berth_reject_unresolvable(const char *reason);

/* Not until something outside the scheduler happens; that event skips the pod's backoff. */
berth_verdict berth_pending(const char *reason);
/* Something broke: the attempt fails with this reason and is repeated after a backoff. It counts in
 * `berth_plugin_errors_total` and is not a fault. */
berth_verdict berth_fail(const char *reason);
/* pre_filter, pre_score, pre_bind_pre_flight, pre_bind and bind: nothing to say about this pod. */
berth_verdict berth_skip(void);

/* For what must not happen: ends the call as a fault. The fault's reason is this message with the file and the line. */
#define berth_panic(message) berth_panic_at(message, __FILE_NAME__, __LINE__)
__attribute__((noreturn)) void berth_panic_at(const char *message, const char *file, unsigned line);

/* What a plugin wants done. Calls below add to it; the operator must grant each sort. */
struct berth_effects {
  berth_scheduler_types_effect_t *items;
  size_t n;
};

/* An object: `v1/ConfigMap`; the namespace is "" for kinds without one. */
struct berth_reference {
  const char *kind, *namespace, *name;
};

/* Why no node passed. */
struct berth_failure {
  struct berth_rejection {
    berth_verdict verdict;
    berth_row *nodes;
    size_t n_nodes;
  } *rejections;
  size_t n_rejections;
  /* The verdict on all other nodes, when pre_filter turned them or the pod down. */
  bool has_absent;
  berth_verdict absent;
  /* Pods that hold a nomination. */
  struct berth_nomination {
    berth_row node;
    const berth_pod *pod;
  } *nominations;
  size_t n_nominations;
};

/* What post_filter has come to, if it passes. */
struct berth_outcome {
  /* Nominate `node`, or clear the pod's nomination, or neither. */
  bool nominates, clears;
  berth_row node;
  struct berth_effects effects;
};

/* What an event happened to, before and after; NULL where it does not exist. Everything is NULL for an object of a kind that
 * `objects` does not name. */
struct berth_subject {
  const berth_pod *old_pod, *new_pod;
  const berth_node *old_node, *new_node;
  /* An object of another kind, and its JSON. */
  struct berth_reference object;
  const char *old_json, *new_json;
};

struct berth_object_kind {
  const char *api_version, *kind;
};

/* An event: a resource (`Pod`, `Node`, `<plural>.<version>.<group>`, `*`) and BERTH_SCHEDULER_TYPES_ACTIONS_*. */
struct berth_cluster_event {
  const char *resource;
  uint16_t actions;
};

#define BERTH_ANY_ACTION 0x1FFF
/* Every update: the only one that kinds besides pods and nodes have. */
#define BERTH_UPDATE (BERTH_ANY_ACTION & ~(BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_SCHEDULER_TYPES_ACTIONS_DELETE))

/* How far answers about a pod reach: `reuse` in the contract has the whole of it. */
struct berth_reach {
  enum {
    /* They follow from anything. */
    BERTH_REACH_CLUSTER,
    /* From such a pod, from the node's own row, and from what `version` stands for; those about the pod alone from the pod and
     * the version. */
    BERTH_REACH_ROW,
    /* The plugin has nothing to do with such pods: every node passes and scores 0. */
    BERTH_REACH_NOTHING,
    /* Nor do such pods on nodes make a difference: berth_pods may lack them. */
    BERTH_REACH_NOTHING_ANYWHERE,
    /* As BERTH_REACH_NOTHING, until a pod comes to a node with which the plugin may have something to do. */
    BERTH_REACH_NOTHING_YET,
  } kind;
  uint64_t version;
};

#define BERTH_ERROR_SIZE 512

struct berth_plugin {
  /* The name that profiles use. It must equal the file's name without `.wasm`. */
  const char *name;
  /* For people. */
  const char *version;
  /* Some of BERTH_COLUMN_*. */
  uint32_t columns;
  /* Instead of BERTH_COLUMN_LABELS: only these labels, ended by NULL. */
  const char *const *label_keys;
  /* These annotations, ended by NULL. */
  const char *const *annotation_keys;
  /* Nodes have their pods, and berth_pods all of them. */
  bool pods;
  /* Pending pods have their whole `json`. */
  bool pod_json;
  /* Kinds to keep, whole, ended by an empty one; the operator must grant each. */
  const struct berth_object_kind *objects;
  /* Events that may make a pod schedulable which this plugin rejected, ended by an empty one. NULL: any may. */
  const struct berth_cluster_event *events_to_register;

  /* `args` is the profile's pluginConfig as JSON, `null` when there is none; see berth_json_*. Writes why they are
   * refused to `error` and returns false, or returns true. Optional. */
  bool (*configure)(const char *args, char error[BERTH_ERROR_SIZE]);

  /* Optional. A pod came to a node, or is about to: it is being bound. Told about each pod once, before anything is asked
   * about the cluster that has it. */
  void (*pod_placed)(const berth_pod *pod, berth_row node);
  /* Optional. It left. A pod that changed is removed, as it was, and placed. So counts that follow both are up to date at
   * every call. */
  void (*pod_removed)(const berth_pod *pod, berth_row node);

  /* Can this node run the pod? */
  berth_verdict (*filter)(const berth_pod *pod, berth_row node);
  /* How good is this node for the pod? 0 to 100, or anything if there is `normalize`. */
  int64_t (*score)(const berth_pod *pod, berth_row node);
  /* Brings the scores of all nodes that passed into 0 to 100. */
  void (*normalize)(const berth_pod *pod, int64_t *scores, size_t n_scores);

  /* Optional: `filter` for all nodes at once. Bit `i % 64` of word `i / 64` is row `i`: clear what does not pass. */
  void (*filter_nodes)(const berth_pod *pod, uint64_t *candidates, size_t n_words);
  /* Optional: `score` for all nodes at once, one score for each of `nodes`. */
  void (*score_nodes)(const berth_pod *pod, const berth_row *nodes, size_t n_nodes, int64_t *scores);

  /* The other extension points. A verdict that passes is yes. plugin.wit must export the interface of each: pre-enqueue,
   * queue-sort, pre-filter, post-filter, pre-score, reserve, permit, pre-bind-pre-flight, pre-bind, bind, post-bind,
   * queueing-hint, sign, reuse, state. */
  berth_verdict (*pre_enqueue)(const berth_pod *pod);
  /* Smaller comes first; `queued_at` is milliseconds since 1970. */
  void (*sort_key)(const berth_pod *pod, int64_t queued_at, int64_t key[2]);
  /* `nodes` may be set to the names that are left, ended by NULL. */
  berth_verdict (*pre_filter)(const berth_pod *pod, const char *const **nodes);
  /* See berth_dry_run and berth_ask_extenders. */
  berth_verdict (*post_filter)(const berth_pod *pod, const struct berth_failure *failure, struct berth_outcome *outcome);
  berth_verdict (*pre_score)(const berth_pod *pod, const berth_row *nodes, size_t n_nodes);
  berth_verdict (*reserve)(const berth_pod *pod, berth_row node);
  void (*unreserve)(const berth_pod *pod, berth_row node);
  /* `milliseconds` may be set: hold the pod for at most so long. */
  berth_verdict (*permit)(const berth_pod *pod, berth_row node, uint64_t *milliseconds, struct berth_effects *effects);
  /* Whether pre_bind will have something to do; skip if not. `allow_parallel` may be set: it may run side by side with that
   * of the plugins next to it. */
  berth_verdict (*pre_bind_pre_flight)(const berth_pod *pod, berth_row node, bool *allow_parallel);
  berth_verdict (*pre_bind)(const berth_pod *pod, berth_row node, struct berth_effects *effects);
  berth_verdict (*bind)(const berth_pod *pod, berth_row node, struct berth_effects *effects);
  void (*post_bind)(const berth_pod *pod, berth_row node);
  /* Whether to try the pod again. */
  bool (*queueing_hint)(const berth_pod *pod, const char *resource, uint16_t actions, const struct berth_subject *subject);
  /* What pods with the same answers share, or NULL. */
  const char *(*sign)(const berth_pod *pod);
  /* What verdicts and scores follow from, so that the scheduler may keep them for pods that differ in their names alone. See
   * struct berth_reach. Without it, it asks about each pod. */
  struct berth_reach (*reach)(const berth_pod *pod);
  /* For the next version of this plugin; it must live until the plugin is called again. */
  const char *(*snapshot)(size_t *n_bytes);
  bool (*restore)(const char *snapshot, size_t n_bytes, char error[BERTH_ERROR_SIZE]);
};

/* The plugin. Each plugin defines it. */
extern const struct berth_plugin berth_plugin;

/* The text of a symbol, until the call ends: afterwards the symbol may stand for another. */
const char *berth_text(berth_sym symbol);
/* 0 if no object in the cluster has this string. */
berth_sym berth_symbol(const char *text);

/* All nodes, if the plugin asked for columns or pods. Freed when the plugin is called again. */
const berth_row *berth_nodes(size_t *n_nodes);
/* All pods on nodes, those that are being bound included, if the plugin has `pods`, `pod_placed` or `pod_removed`. Freed when
 * the plugin is called again. */
const berth_pod *const *berth_pods(size_t *n_pods);
/* Where a pod of berth_pods or berth_node_pods is. */
berth_row berth_pod_node(const berth_pod *pod);
/* The value of a pod's label, or NULL. */
const char *berth_pod_label(const berth_pod *pod, const char *key);

/* The whole pod as JSON, if the plugin has `pod_json` and the pod is pending, or NULL. Freed when the plugin is called
 * again. */
const char *berth_pod_json(const berth_pod *pod);

/* A node's columns, if the plugin asked for them. What it did not ask for is empty, and a line of the log says so. */
const char *berth_node_name(berth_row node);
bool berth_node_unschedulable(berth_row node);
/* The value of a label, or NULL. */
const char *berth_node_label(berth_row node, const char *key);
/* Whether there is a label, by symbols; `value` may be NULL. */
bool berth_node_has_label(berth_row node, berth_sym key, berth_sym *value);
/* The value of an annotation, or NULL. */
const char *berth_node_annotation(berth_row node, const char *key);
/* The pods on a node, in no order that means anything. */
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
/* In bytes; 0 if unknown. */
int64_t berth_image_size(berth_sym image);

/* The strings end to end; ended by NULL. Freed when the plugin is called again. */
__attribute__((sentinel)) const char *berth_concat(const char *first, ...);
/* A string of the contract, `pod->name` say. Freed when the plugin is called again. */
const char *berth_string(const plugin_string_t *string);
/* The number in decimal digits. Freed when the plugin is called again. */
const char *berth_decimal(int64_t value);
/* A decimal integer with an optional sign, and nothing else, between `least` and `most`. */
bool berth_integer(const char *text, int64_t least, int64_t most, int64_t *value);

/* Members of a JSON object by key. `json` may be NULL, which has none. */
enum berth_json { BERTH_JSON_ABSENT, BERTH_JSON_FOUND, BERTH_JSON_OTHER_TYPE };
/* Whether `json` is an object or `null`. */
bool berth_json_is_object(const char *json);
/* Whether `json` has no other keys than these, ended by NULL. If it has, `error` says so. With it `configure` refuses an
 * argument that is misspelt. */
__attribute__((sentinel)) bool berth_json_only(const char *json, char error[BERTH_ERROR_SIZE], const char *first, ...);
/* The string is the plugin's: keep it, or `free` it. */
enum berth_json berth_json_string(const char *json, const char *key, const char **value);
enum berth_json berth_json_bool(const char *json, const char *key, bool *value);
enum berth_json berth_json_integer(const char *json, const char *key, int64_t *value);
enum berth_json berth_json_number(const char *json, const char *key, double *value);
/* The object that is the value of a member, as `json` of the functions here; it points into `json`. NULL if there is no such
 * member, or if it is not an object: berth_json_string(berth_json_object(args, "quota"), "label", &label). */
const char *berth_json_object(const char *json, const char *key);
/* One key after the other, from NULL to NULL. Freed when the plugin is called again. */
const char *berth_json_next_key(const char *json, const char *after);

/* The JSON of an object of a kind that the plugin asked for, or NULL. */
const char *berth_object(const char *api_version, const char *kind, const char *namespace, const char *name);
/* One object of a kind after the other, from NULL to NULL, in no order that means anything. */
struct berth_object {
  const char *api_version, *kind, *namespace, *name, *json;
};
const struct berth_object *berth_next_object(const char *api_version, const char *kind, const struct berth_object *after);

/* Bind the pod of this cycle to the node chosen for it. */
void berth_bind(struct berth_effects *effects);
/* A JSON merge patch; `subresource` may be NULL. A `resourceVersion` in it makes it fail when the object has changed. */
void berth_patch(struct berth_effects *effects, const char *kind, const char *namespace, const char *name,
                 const char *subresource, const char *json);
void berth_create(struct berth_effects *effects, const char *kind, const char *namespace, const char *json);
void berth_delete(struct berth_effects *effects, const char *kind, const char *namespace, const char *name);
/* Make room by evicting a pod from its node. */
void berth_evict(struct berth_effects *effects, const berth_pod *pod, const char *message);
/* Let a pod that waits on Permit go on, or turn it down. */
void berth_allow(struct berth_effects *effects, const char *uid);
void berth_turn_down(struct berth_effects *effects, const char *uid, const char *reason);
/* Move pods to activeQ; ended by NULL. */
void berth_activate(struct berth_effects *effects, const char *const *uids);
/* Set a pod's `nominatedNodeName`; NULL clears it. */
void berth_nominate(struct berth_effects *effects, const char *uid, const char *node);
/* A Kubernetes event about the pod of this cycle. */
void berth_event(struct berth_effects *effects, bool warning, const char *reason, const char *action, const char *note);
/* An effect of pre_bind, and of permit together with `milliseconds`. The plugin is asked again when one of the objects has changed,
 * and the attempt fails with the message after `milliseconds`. The objects may include the pod itself, with the kind "v1/Pod"; the
 * plugin is then asked with the pod as it is after the change. The wait must be the last effect of the answer. */
void berth_wait(struct berth_effects *effects, const struct berth_reference *objects, size_t n_objects,
                uint64_t milliseconds, const char *message);

/* A node without some of its pods. */
struct berth_removal {
  berth_row node;
  const berth_pod *const *pods;
  size_t n_pods;
};
/* In post_filter: what the profile's other Filter plugins would say about each. */
void berth_dry_run(const struct berth_removal *cases, size_t n_cases, berth_verdict *verdicts);

/* A node on which the pod fits once these pods are gone, the most important first. */
struct berth_preemption {
  berth_row node;
  const berth_pod *const *victims;
  size_t n_victims;
  /* How many of the evictions violate a disruption budget. */
  int64_t violations;
};
/* In post_filter: what is left of these after the HTTP extenders with a `preemptVerb`, which leave nodes out and may name other
 * pods of a node. Freed when the plugin is called again. Another verdict than pass is the answer to give: an extender
 * failed. */
berth_verdict berth_ask_extenders(const struct berth_preemption *asked, size_t n_asked,
                                  const struct berth_preemption **agreed, size_t *n_agreed);

/* Milliseconds since 1970, as of the start of this cycle. */
uint64_t berth_now(void);
/* Writes to the scheduler's log: BERTH_SCHEDULER_HOST_LEVEL_INFO and the like. */
void berth_log(berth_scheduler_host_level_t level, const char *message);
/* Adds to the counter `berth_plugin_custom_total{name}`. */
void berth_count(const char *name, uint64_t amount);

#ifdef __cplusplus
}
#endif

#endif
