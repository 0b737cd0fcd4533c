/* Points: every extension point, with answers that a test knows. */
#include <berth.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(const berth_pod *pod) { return berth_string(&pod->name); }

static bool is(const berth_pod *pod, const char *name) { return !strcmp(name_of(pod), name); }

static char *diary;

static void keep(const char *text) {
  free(diary);
  diary = strdup(text);
}

static void note(const char *what, const berth_pod *pod, berth_row node) {
  keep(berth_concat(diary ? diary : "", diary ? "\n" : "", what, " ", name_of(pod), " ", berth_node_name(node), NULL));
}

static berth_verdict pre_enqueue(const berth_pod *pod) {
  if (pod->owner.is_some) return berth_pending(berth_concat("owned by ", berth_string(&pod->owner.val.name), NULL));
  return is(pod, "gated") ? berth_pending("gated") : berth_pass();
}

static void sort_key(const berth_pod *pod, int64_t queued_at, int64_t key[2]) {
  key[0] = -(int64_t)pod->priority;
  key[1] = queued_at;
}

static berth_verdict pre_filter(const berth_pod *pod, const char *const **nodes) {
  static const char *const pinned[] = {"a", NULL};
  if (is(pod, "nowhere")) return berth_reject_unresolvable("no place");
  if (is(pod, "pinned")) *nodes = pinned;
  if (is(pod, "broken")) return berth_fail("broken");
  return is(pod, "skipped") ? berth_skip() : berth_pass();
}

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  (void)pod;
  return strcmp(berth_node_name(node), "c") ? berth_pass() : berth_reject("not c");
}

static berth_verdict post_filter(const berth_pod *pod, const struct berth_failure *failure, struct berth_outcome *outcome) {
  if (failure->has_absent) return berth_reject(berth_concat("absent: ", failure->absent.reason, NULL));
  berth_row node = failure->rejections[0].nodes[0];
  size_t n;
  const berth_pod *const *pods = berth_node_pods(node, &n);
  if (is(pod, "extended")) {
    struct berth_preemption asked = {node, pods, n, 1};
    const struct berth_preemption *agreed;
    size_t n_agreed;
    berth_verdict verdict = berth_ask_extenders(&asked, 1, &agreed, &n_agreed);
    if (verdict.reason) return verdict;
    outcome->nominates = true;
    outcome->node = agreed->node;
    const char *message = berth_concat(berth_decimal(agreed->violations), " violations", NULL);
    for (size_t i = 0; i < agreed->n_victims; i++) berth_evict(&outcome->effects, agreed->victims[i], message);
    return berth_pass();
  }
  struct berth_removal removal = {node, pods, n};
  berth_verdict verdict;
  berth_dry_run(&removal, 1, &verdict);
  if (verdict.reason) return verdict;
  outcome->nominates = true;
  outcome->node = node;
  for (size_t i = 0; i < n; i++) berth_evict(&outcome->effects, pods[i], berth_concat("for ", name_of(pod), NULL));
  for (size_t i = 0; i < failure->n_nominations; i++) {
    berth_nominate(&outcome->effects, berth_string(&failure->nominations[i].pod->uid), NULL);
  }
  return berth_pass();
}

static berth_verdict pre_score(const berth_pod *pod, const berth_row *nodes, size_t n_nodes) {
  (void)nodes, (void)n_nodes;
  return is(pod, "unscored") ? berth_skip() : berth_pass();
}

static int64_t score(const berth_pod *pod, berth_row node) {
  (void)pod;
  return node * 10;
}

static void normalize(const berth_pod *pod, int64_t *scores, size_t n_scores) {
  (void)pod;
  for (size_t i = 0; i < n_scores; i++) scores[i]++;
}

static berth_verdict reserve(const berth_pod *pod, berth_row node) {
  if (is(pod, "refused")) return berth_reject(berth_concat("no room on ", berth_node_name(node), NULL));
  note("reserve", pod, node);
  berth_log(BERTH_SCHEDULER_HOST_LEVEL_INFO, "reserved");
  berth_count("reserved", 1);
  return berth_pass();
}

static void unreserve(const berth_pod *pod, berth_row node, struct berth_effects *effects) {
  note("unreserve", pod, node);
  if (is(pod, "plain")) return;
  berth_strategic_patch(effects, "v1/Pod", berth_text(pod->namespace_), name_of(pod), "status",
                        "{\"status\": {\"conditions\": [{\"$patch\": \"delete\", \"type\": \"Held\"}]}}");
}

static berth_verdict permit(const berth_pod *pod, berth_row node, uint64_t *milliseconds, struct berth_effects *effects) {
  (void)node;
  static const char *const others[] = {"u-3", "u-4", NULL};
  if (is(pod, "denied")) return berth_reject("not today");
  if (is(pod, "waits")) {
    *milliseconds = 5000;
    berth_allow(effects, "u-1");
    berth_turn_down(effects, "u-2", "too late");
    berth_activate(effects, others);
  }
  return berth_pass();
}

static berth_verdict pre_bind_pre_flight(const berth_pod *pod, berth_row node, bool *allow_parallel) {
  (void)node;
  *allow_parallel = !is(pod, "waits");
  return is(pod, "plain") ? berth_skip() : berth_pass();
}

static berth_verdict pre_bind(const berth_pod *pod, berth_row node, struct berth_effects *effects) {
  (void)node;
  static const struct berth_reference notes = {"v1/ConfigMap", "default", "notes"};
  if (is(pod, "plain")) return berth_skip();
  const char *name = name_of(pod);
  berth_patch(effects, notes.kind, notes.namespace, notes.name, "status",
              berth_concat("{\"data\": {\"pod\": \"", name, "\"}}", NULL));
  berth_create(effects, "v1/ConfigMap", "default", berth_concat("{\"metadata\": {\"name\": \"", name, "\"}}", NULL));
  berth_delete(effects, "v1/Secret", "default", "old");
  berth_nominate(effects, berth_string(&pod->uid), "a");
  berth_wait(effects, &notes, 1, 1500, "no notes");
  return berth_pass();
}

static berth_verdict bind(const berth_pod *pod, berth_row node, struct berth_effects *effects) {
  (void)node;
  if (is(pod, "plain")) return berth_skip();
  char count[2] = "0";
  const struct berth_object *object = NULL;
  while ((object = berth_next_object("v1", "ConfigMap", object))) count[0]++;
  const char *data = berth_json_object(berth_object("v1", "ConfigMap", "default", "notes"), "data");
  const char *keys = "", *key = NULL, *size;
  while ((key = berth_json_next_key(data, key))) keys = berth_concat(keys, ", ", key, NULL);
  double half;
  if (berth_json_number(data, "half", &half) != BERTH_JSON_FOUND || half != 0.5) berth_panic("no half");
  if (berth_json_number(data, "rate", &half) != BERTH_JSON_OTHER_TYPE) berth_panic("a rate");
  if (berth_json_object(data, "half") || berth_json_object(data, "absent")) berth_panic("an object");
  if (berth_json_string(berth_json_object(data, "größe"), "of", &size) != BERTH_JSON_FOUND) berth_panic("no size");
  berth_bind(effects);
  berth_event(effects, true, "Bound", "Binding",
              berth_concat(count, " objects", keys, ": ", size, ", ", berth_now() ? "in time" : "no time", NULL));
  free((char *)size);
  return berth_pass();
}

static void post_bind(const berth_pod *pod, berth_row node) { note("bound", pod, node); }

static bool is_text(berth_sym symbol, const char *text) { return !strcmp(berth_text(symbol), text); }

static bool pod_says_yes(const berth_pod *pod) {
  return pod && pod->labels.len == 1 && is_text(pod->labels.ptr[0].f0, "go") && is_text(pod->labels.ptr[0].f1, "yes");
}

static bool node_says_yes(const berth_node *node) {
  if (!node || !is_text(node->name, "d") || !node->unschedulable) return false;
  if (node->labels.len != 1 || node->taints.len != 1 || node->declared_features.len != 1) return false;
  const berth_taint *taint = &node->taints.ptr[0];
  const berth_scheduler_types_resources_t *allocatable = &node->allocatable;
  if (allocatable->milli_cpu != 4000 || allocatable->scalars.len != 1 || node->allowed_pods != 110) return false;
  return is_text(node->labels.ptr[0].f0, "go") && is_text(node->labels.ptr[0].f1, "yes") &&
         is_text(taint->key, "example.com/busy") && is_text(taint->value, "very") &&
         taint->effect == BERTH_SCHEDULER_TYPES_TAINT_EFFECT_NO_EXECUTE &&
         is_text(allocatable->scalars.ptr[0].f0, "example.com/gpu") && allocatable->scalars.ptr[0].f1 == 2 &&
         is_text(node->declared_features.ptr[0], "Naps");
}

static bool json_says_yes(const char *json) { return json && strstr(json, "\"yes\""); }

static bool queueing_hint(const berth_pod *pod, const char *resource, uint16_t actions,
                          const struct berth_subject *subject) {
  (void)pod, (void)actions;
  if (!strcmp(resource, "Pod")) return pod_says_yes(subject->new_pod) && !pod_says_yes(subject->old_pod);
  if (!strcmp(resource, "Node")) return node_says_yes(subject->new_node) && !node_says_yes(subject->old_node);
  if (strcmp(resource, "ConfigMap")) return false;
  const struct berth_reference *object = &subject->object;
  return object->kind && !strcmp(object->kind, "v1/ConfigMap") && !strcmp(object->namespace, "default") &&
         !strcmp(object->name, "notes") && json_says_yes(subject->new_json) && !json_says_yes(subject->old_json);
}

static const char *sign(const berth_pod *pod) { return strncmp(name_of(pod), "twin", 4) ? NULL : "twin"; }

static const char *explain(const berth_pod *pod, const berth_row *node) {
  if (!strcmp(name_of(pod), "mute")) return NULL;
  if (!node) return berth_concat(name_of(pod), " goes to a or b", NULL);
  return berth_concat(berth_node_name(*node), " is no place\nfor ", name_of(pod), NULL);
}

static const char *snapshot(size_t *n_bytes) {
  *n_bytes = diary ? strlen(diary) : 0;
  return diary;
}

static bool restore(const char *snapshot, size_t n_bytes, char error[BERTH_ERROR_SIZE]) {
  plugin_string_t string = {(uint8_t *)snapshot, n_bytes};
  const char *text = berth_string(&string);
  if (!strcmp(text, "bad")) {
    strncpy(error, "not a diary", BERTH_ERROR_SIZE - 1);
    return false;
  }
  keep(text);
  return true;
}

static const struct berth_object_kind objects[] = {{"v1", "ConfigMap"}, {0}};

static const struct berth_cluster_event events_to_register[] = {
    {"Node", BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_SCHEDULER_TYPES_ACTIONS_UPDATE_NODE_LABEL},
    {"Pod", BERTH_ANY_ACTION},
    {"ConfigMap", BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_UPDATE},
    {0},
};

const struct berth_plugin berth_plugin = {
    .name = "Points",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_NAME,
    .pods = true,
    .objects = objects,
    .events_to_register = events_to_register,
    .pre_enqueue = pre_enqueue,
    .sort_key = sort_key,
    .pre_filter = pre_filter,
    .filter = filter,
    .post_filter = post_filter,
    .pre_score = pre_score,
    .score = score,
    .normalize = normalize,
    .reserve = reserve,
    .unreserve = unreserve,
    .permit = permit,
    .pre_bind_pre_flight = pre_bind_pre_flight,
    .pre_bind = pre_bind,
    .bind = bind,
    .post_bind = post_bind,
    .queueing_hint = queueing_hint,
    .sign = sign,
    .explain = explain,
    .snapshot = snapshot,
    .restore = restore,
};
