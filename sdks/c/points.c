/* The extension points other than filter and score, and the effects. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

berth_verdict berth_pending(const char *reason) { return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_PENDING, reason}; }

berth_verdict berth_skip(void) { return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_SKIP, NULL}; }

static plugin_string_t string_of(const char *text) {
  plugin_string_t string;
  plugin_string_dup(&string, text);
  return string;
}

static plugin_list_u8_t bytes_of(const void *bytes, size_t n) {
  plugin_list_u8_t list = {n ? berth_table_allocate(n) : NULL, n};
  if (n) memcpy(list.ptr, bytes, n);
  return list;
}

static berth_scheduler_types_object_ref_t reference(const char *kind, const char *namespace, const char *name) {
  return (berth_scheduler_types_object_ref_t){string_of(kind), string_of(namespace), string_of(name)};
}

static berth_scheduler_types_effect_t *add(struct berth_effects *effects, uint8_t tag) {
  effects->items = berth_table_resize(effects->items, (effects->n + 1) * sizeof *effects->items);
  berth_scheduler_types_effect_t *effect = &effects->items[effects->n++];
  memset(effect, 0, sizeof *effect);
  effect->tag = tag;
  return effect;
}

void berth_bind(struct berth_effects *effects) { add(effects, BERTH_SCHEDULER_TYPES_EFFECT_BIND); }

static void add_patch(struct berth_effects *effects, berth_scheduler_types_patch_type_t type,
                      berth_scheduler_types_object_ref_t object, const char *subresource, const char *json) {
  berth_scheduler_types_patch_t *patch = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_PATCH)->val.patch;
  patch->object = object;
  patch->subresource.is_some = subresource != NULL;
  if (subresource) patch->subresource.val = string_of(subresource);
  patch->body = bytes_of(json, strlen(json));
  patch->patch_type = type;
}

void berth_patch(struct berth_effects *effects, const char *kind, const char *namespace, const char *name,
                 const char *subresource, const char *json) {
  add_patch(effects, BERTH_SCHEDULER_TYPES_PATCH_TYPE_MERGE, reference(kind, namespace, name), subresource, json);
}

void berth_strategic_patch(struct berth_effects *effects, const char *kind, const char *namespace, const char *name,
                           const char *subresource, const char *json) {
  add_patch(effects, BERTH_SCHEDULER_TYPES_PATCH_TYPE_STRATEGIC_MERGE, reference(kind, namespace, name), subresource, json);
}

void berth_create(struct berth_effects *effects, const char *kind, const char *namespace, const char *json) {
  berth_scheduler_types_new_object_t *object = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_CREATE)->val.create;
  object->kind = string_of(kind);
  object->namespace_ = string_of(namespace);
  object->body = bytes_of(json, strlen(json));
}

void berth_delete(struct berth_effects *effects, const char *kind, const char *namespace, const char *name) {
  add(effects, BERTH_SCHEDULER_TYPES_EFFECT_DELETE)->val.delete_ = reference(kind, namespace, name);
}

void berth_evict(struct berth_effects *effects, const berth_pod *pod, const char *message) {
  berth_scheduler_types_eviction_t *eviction = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_EVICT)->val.evict;
  eviction->pod.namespace_ = string_of(berth_text(pod->namespace_));
  eviction->pod.name = string_of(berth_string(&pod->name));
  eviction->pod.uid = string_of(berth_string(&pod->uid));
  eviction->message = string_of(message);
}

void berth_allow(struct berth_effects *effects, const char *uid) {
  add(effects, BERTH_SCHEDULER_TYPES_EFFECT_ALLOW)->val.allow = string_of(uid);
}

void berth_turn_down(struct berth_effects *effects, const char *uid, const char *reason) {
  plugin_tuple2_string_string_t *pair = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_REJECT)->val.reject;
  pair->f0 = string_of(uid);
  pair->f1 = string_of(reason);
}

void berth_activate(struct berth_effects *effects, const char *const *uids) {
  plugin_list_string_t *list = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_ACTIVATE)->val.activate;
  while (uids[list->len]) list->len++;
  list->ptr = berth_table_allocate(list->len * sizeof *list->ptr);
  for (size_t i = 0; i < list->len; i++) list->ptr[i] = string_of(uids[i]);
}

void berth_nominate(struct berth_effects *effects, const char *uid, const char *node) {
  plugin_tuple2_string_option_string_t *pair = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_NOMINATE)->val.nominate;
  pair->f0 = string_of(uid);
  pair->f1.is_some = node != NULL;
  if (node) pair->f1.val = string_of(node);
}

void berth_event(struct berth_effects *effects, bool warning, const char *reason, const char *action, const char *note) {
  berth_scheduler_types_event_t *event = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_EVENT)->val.event;
  *event = (berth_scheduler_types_event_t){warning, string_of(reason), string_of(action), string_of(note)};
}

void berth_wait(struct berth_effects *effects, const struct berth_reference *objects, size_t n_objects,
                uint64_t milliseconds, const char *message) {
  berth_scheduler_types_wait_t *wait = &add(effects, BERTH_SCHEDULER_TYPES_EFFECT_WAIT)->val.wait;
  wait->objects.ptr = berth_table_allocate(n_objects * sizeof *wait->objects.ptr);
  wait->objects.len = n_objects;
  for (size_t i = 0; i < n_objects; i++) {
    wait->objects.ptr[i] = reference(objects[i].kind, objects[i].namespace, objects[i].name);
  }
  wait->timeout_ms = milliseconds;
  wait->timeout_message = string_of(message);
}

/* Whether a verdict passes. If it does not pass, `status` is set. */
__attribute__((unused)) static bool passes(berth_verdict verdict, berth_scheduler_types_status_t *status) {
  if (verdict.code == BERTH_SCHEDULER_TYPES_CODE_SUCCESS) return true;
  berth_set_status(status, verdict);
  return false;
}

#ifdef BERTH_EXPORTS_PRE_ENQUEUE
bool exports_berth_scheduler_pre_enqueue_pre_enqueue(berth_pod *pod, berth_scheduler_types_status_t *err) {
  berth_forget();
  bool passed = passes(berth_plugin.pre_enqueue(pod), err);
  berth_scheduler_types_pod_free(pod);
  return passed;
}
#endif

#ifdef BERTH_EXPORTS_QUEUE_SORT
void exports_berth_scheduler_queue_sort_sort_key(berth_pod *pod, int64_t queued_at, plugin_tuple2_s64_s64_t *ret) {
  berth_forget();
  int64_t key[2] = {0, queued_at};
  berth_plugin.sort_key(pod, queued_at, key);
  *ret = (plugin_tuple2_s64_s64_t){key[0], key[1]};
  berth_scheduler_types_pod_free(pod);
}
#endif

#ifdef BERTH_EXPORTS_PRE_FILTER
bool exports_berth_scheduler_pre_filter_pre_filter(uint64_t cycle, plugin_option_list_string_t *ret,
                                                   berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  const char *const *nodes = NULL;
  if (!pod || !passes(berth_plugin.pre_filter(pod, &nodes), err)) return false;
  ret->is_some = nodes != NULL;
  if (nodes) {
    plugin_list_string_t *names = &ret->val;
    names->len = 0;
    while (nodes[names->len]) names->len++;
    names->ptr = berth_table_allocate(names->len * sizeof *names->ptr);
    for (size_t i = 0; i < names->len; i++) names->ptr[i] = string_of(nodes[i]);
  }
  return true;
}
#endif

#ifdef BERTH_EXPORTS_PRE_SCORE
bool exports_berth_scheduler_pre_score_pre_score(uint64_t cycle, berth_scheduler_types_rows_t *nodes,
                                                 berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  bool passed = false;
  if (pod) {
    size_t n_nodes;
    berth_row *rows = berth_rows(nodes, &n_nodes);
    passed = passes(berth_plugin.pre_score(pod, rows, n_nodes), err);
    free(rows);
  }
  berth_scheduler_types_rows_free(nodes);
  return passed;
}
#endif

#ifdef BERTH_EXPORTS_RESERVE
bool exports_berth_scheduler_reserve_reserve(uint64_t cycle, berth_row node, berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  return pod && passes(berth_plugin.reserve(pod, node), err);
}

void exports_berth_scheduler_reserve_unreserve(uint64_t cycle, berth_row node,
                                               exports_berth_scheduler_reserve_list_effect_t *ret) {
  struct berth_effects effects = {NULL, 0};
  const berth_pod *pod = berth_pod_of(cycle);
  berth_forget();
  if (pod) berth_plugin.unreserve(pod, node, &effects);
  *ret = (exports_berth_scheduler_reserve_list_effect_t){effects.items, effects.n};
}
#endif

#ifdef BERTH_EXPORTS_PERMIT
void exports_berth_scheduler_permit_permit(uint64_t cycle, berth_row node,
                                           exports_berth_scheduler_permit_tuple2_verdict_list_effect_t *ret) {
  memset(ret, 0, sizeof *ret);
  struct berth_effects effects = {NULL, 0};
  uint64_t milliseconds = 0;
  const berth_pod *pod = berth_enter(cycle, &ret->f0.val.deny);
  bool passed = pod && passes(berth_plugin.permit(pod, node, &milliseconds, &effects), &ret->f0.val.deny);
  if (!passed) {
    ret->f0.tag = EXPORTS_BERTH_SCHEDULER_PERMIT_VERDICT_DENY;
  } else if (milliseconds) {
    ret->f0.tag = EXPORTS_BERTH_SCHEDULER_PERMIT_VERDICT_WAIT;
    ret->f0.val.wait = milliseconds;
  } else {
    ret->f0.tag = EXPORTS_BERTH_SCHEDULER_PERMIT_VERDICT_ALLOW;
  }
  ret->f1.ptr = effects.items;
  ret->f1.len = effects.n;
}
#endif

#ifdef BERTH_EXPORTS_PRE_BIND_PRE_FLIGHT
bool exports_berth_scheduler_pre_bind_pre_flight_pre_bind_pre_flight(
    uint64_t cycle, berth_row node, exports_berth_scheduler_pre_bind_pre_flight_pre_flight_t *ret,
    berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  bool allow_parallel = false;
  if (!pod || !passes(berth_plugin.pre_bind_pre_flight(pod, node, &allow_parallel), err)) return false;
  ret->allow_parallel = allow_parallel;
  return true;
}
#endif

#if defined BERTH_EXPORTS_PRE_BIND || defined BERTH_EXPORTS_BIND
static bool ask(uint64_t cycle, berth_row node,
                berth_verdict (*point)(const berth_pod *pod, berth_row node, struct berth_effects *effects),
                struct berth_effects *effects, berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  return pod && passes(point(pod, node, effects), err);
}
#endif

#ifdef BERTH_EXPORTS_PRE_BIND
bool exports_berth_scheduler_pre_bind_pre_bind(uint64_t cycle, berth_row node,
                                               exports_berth_scheduler_pre_bind_list_effect_t *ret,
                                               berth_scheduler_types_status_t *err) {
  struct berth_effects effects = {NULL, 0};
  bool passed = ask(cycle, node, berth_plugin.pre_bind, &effects, err);
  if (passed) *ret = (exports_berth_scheduler_pre_bind_list_effect_t){effects.items, effects.n};
  return passed;
}
#endif

#ifdef BERTH_EXPORTS_BIND
bool exports_berth_scheduler_bind_bind(uint64_t cycle, berth_row node, exports_berth_scheduler_bind_list_effect_t *ret,
                                       berth_scheduler_types_status_t *err) {
  struct berth_effects effects = {NULL, 0};
  bool passed = ask(cycle, node, berth_plugin.bind, &effects, err);
  if (passed) *ret = (exports_berth_scheduler_bind_list_effect_t){effects.items, effects.n};
  return passed;
}
#endif

#ifdef BERTH_EXPORTS_POST_BIND
void exports_berth_scheduler_post_bind_post_bind(uint64_t cycle, berth_row node) {
  const berth_pod *pod = berth_pod_of(cycle);
  berth_forget();
  if (pod) berth_plugin.post_bind(pod, node);
}
#endif

/* Converts a status of the host to a verdict. The text is freed when the plugin is called again. */
static berth_verdict verdict_of(const berth_scheduler_types_status_t *status) {
  const char *reason = NULL;
  for (size_t i = 0; i < status->reasons.len; i++) {
    const char *next = berth_string(&status->reasons.ptr[i]);
    reason = reason ? berth_concat(reason, ", ", next, NULL) : next;
  }
  return (berth_verdict){status->code, reason};
}

void berth_dry_run(const struct berth_removal *cases, size_t n_cases, berth_verdict *verdicts) {
  berth_scheduler_host_list_removal_t removals = {berth_table_allocate(n_cases * sizeof *removals.ptr), n_cases};
  for (size_t i = 0; i < n_cases; i++) {
    berth_scheduler_host_removal_t *removal = &removals.ptr[i];
    removal->node = cases[i].node;
    removal->pods.len = cases[i].n_pods;
    removal->pods.ptr = berth_table_allocate(cases[i].n_pods * sizeof *removal->pods.ptr);
    for (size_t p = 0; p < cases[i].n_pods; p++) removal->pods.ptr[p] = berth_table_slot(cases[i].pods[p]);
  }
  berth_scheduler_host_list_status_t statuses = {NULL, 0};
  berth_scheduler_host_status_t failed;
  bool answered = berth_scheduler_host_dry_run(&removals, &statuses, &failed);
  for (size_t i = 0; i < n_cases; i++) verdicts[i] = verdict_of(answered ? &statuses.ptr[i] : &failed);
  if (answered) {
    berth_scheduler_host_list_status_free(&statuses);
  } else {
    berth_scheduler_types_status_free(&failed);
  }
  for (size_t i = 0; i < n_cases; i++) free(removals.ptr[i].pods.ptr);
  free(removals.ptr);
}

berth_verdict berth_ask_extenders(const struct berth_preemption *asked, size_t n_asked,
                                  const struct berth_preemption **agreed, size_t *n_agreed) {
  berth_scheduler_host_list_preemption_t list = {berth_table_allocate(n_asked * sizeof *list.ptr), n_asked};
  for (size_t i = 0; i < n_asked; i++) {
    berth_scheduler_host_preemption_t *preemption = &list.ptr[i];
    preemption->node = asked[i].node;
    preemption->violations = asked[i].violations;
    preemption->victims.len = asked[i].n_victims;
    preemption->victims.ptr = berth_table_allocate(asked[i].n_victims * sizeof *preemption->victims.ptr);
    for (size_t p = 0; p < asked[i].n_victims; p++) preemption->victims.ptr[p] = berth_table_slot(asked[i].victims[p]);
  }
  berth_scheduler_host_list_preemption_t left = {NULL, 0};
  berth_scheduler_host_status_t failed;
  bool answered = berth_scheduler_host_ask_extenders(&list, &left, &failed);
  for (size_t i = 0; i < n_asked; i++) free(list.ptr[i].victims.ptr);
  free(list.ptr);
  if (!answered) {
    berth_verdict verdict = verdict_of(&failed);
    berth_scheduler_types_status_free(&failed);
    return verdict;
  }
  struct berth_preemption *shown = berth_allocate_for_call(left.len * sizeof *shown);
  for (size_t i = 0; i < left.len; i++) {
    const berth_scheduler_host_preemption_t *preemption = &left.ptr[i];
    const berth_pod **victims = berth_allocate_for_call(preemption->victims.len * sizeof *victims);
    for (size_t p = 0; p < preemption->victims.len; p++) victims[p] = berth_table_pod(preemption->victims.ptr[p]);
    shown[i] = (struct berth_preemption){preemption->node, victims, preemption->victims.len, preemption->violations};
  }
  *agreed = shown;
  *n_agreed = left.len;
  berth_scheduler_host_list_preemption_free(&left);
  return berth_pass();
}

#ifdef BERTH_EXPORTS_POST_FILTER
static void fail_with(const exports_berth_scheduler_post_filter_failure_t *raw, struct berth_failure *failure) {
  *failure = (struct berth_failure){.n_rejections = raw->rejections.len, .n_nominations = raw->nominated.len};
  failure->rejections = berth_table_allocate(failure->n_rejections * sizeof *failure->rejections);
  for (size_t i = 0; i < failure->n_rejections; i++) {
    struct berth_rejection *rejection = &failure->rejections[i];
    rejection->verdict = verdict_of(&raw->rejections.ptr[i].status);
    rejection->nodes = berth_rows(&raw->rejections.ptr[i].nodes, &rejection->n_nodes);
  }
  failure->nominations = berth_table_allocate(failure->n_nominations * sizeof *failure->nominations);
  for (size_t i = 0; i < failure->n_nominations; i++) {
    failure->nominations[i].node = raw->nominated.ptr[i].f0;
    failure->nominations[i].pod = &raw->nominated.ptr[i].f1;
  }
  failure->has_absent = raw->absent.is_some;
  if (raw->absent.is_some) failure->absent = verdict_of(&raw->absent.val);
}

bool exports_berth_scheduler_post_filter_post_filter(uint64_t cycle, exports_berth_scheduler_post_filter_failure_t *raw,
                                                     exports_berth_scheduler_post_filter_outcome_t *ret,
                                                     berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  if (pod) {
    struct berth_failure failure;
    struct berth_outcome outcome = {0};
    fail_with(raw, &failure);
    memset(ret, 0, sizeof *ret);
    berth_set_status(&ret->status, berth_plugin.post_filter(pod, &failure, &outcome));
    ret->nomination.tag = EXPORTS_BERTH_SCHEDULER_POST_FILTER_NOMINATION_KEEP;
    if (outcome.clears) ret->nomination.tag = EXPORTS_BERTH_SCHEDULER_POST_FILTER_NOMINATION_CLEAR;
    if (outcome.nominates) {
      ret->nomination.tag = EXPORTS_BERTH_SCHEDULER_POST_FILTER_NOMINATION_NODE;
      ret->nomination.val.node = outcome.node;
    }
    ret->effects.ptr = outcome.effects.items;
    ret->effects.len = outcome.effects.n;
    for (size_t i = 0; i < failure.n_rejections; i++) free(failure.rejections[i].nodes);
    free(failure.rejections);
    free(failure.nominations);
  }
  exports_berth_scheduler_post_filter_failure_free(raw);
  return pod != NULL;
}
#endif

#ifdef BERTH_EXPORTS_QUEUEING_HINT
static const char *text_of(const plugin_option_list_u8_t *json) {
  if (!json->is_some) return NULL;
  plugin_string_t string = {json->val.ptr, json->val.len};
  return berth_string(&string);
}

static struct berth_subject subject_of(const exports_berth_scheduler_queueing_hint_event_subject_t *raw) {
  struct berth_subject subject = {0};
  switch (raw->tag) {
    case EXPORTS_BERTH_SCHEDULER_QUEUEING_HINT_EVENT_SUBJECT_POD: {
      const exports_berth_scheduler_queueing_hint_pod_change_t *change = &raw->val.pod;
      if (change->old.is_some) subject.old_pod = &change->old.val;
      if (change->new_.is_some) subject.new_pod = &change->new_.val;
      break;
    }
    case EXPORTS_BERTH_SCHEDULER_QUEUEING_HINT_EVENT_SUBJECT_NODE: {
      const exports_berth_scheduler_queueing_hint_node_change_t *change = &raw->val.node;
      if (change->old.is_some) subject.old_node = &change->old.val;
      if (change->new_.is_some) subject.new_node = &change->new_.val;
      break;
    }
    case EXPORTS_BERTH_SCHEDULER_QUEUEING_HINT_EVENT_SUBJECT_OBJECT: {
      const exports_berth_scheduler_queueing_hint_object_change_t *change = &raw->val.object;
      subject.object.kind = berth_string(&change->object.kind);
      subject.object.namespace = berth_string(&change->object.namespace_);
      subject.object.name = berth_string(&change->object.name);
      subject.old_json = text_of(&change->old);
      subject.new_json = text_of(&change->new_);
      break;
    }
    default:
      break;
  }
  return subject;
}

exports_berth_scheduler_queueing_hint_hint_t exports_berth_scheduler_queueing_hint_queueing_hint(
    berth_pod *pod, exports_berth_scheduler_queueing_hint_cluster_event_t *event,
    exports_berth_scheduler_queueing_hint_event_subject_t *raw) {
  berth_forget();
  const char *resource = berth_string(&event->resource);
  struct berth_subject subject = subject_of(raw);
  bool queues = berth_plugin.queueing_hint(pod, resource, event->actions, &subject);
  berth_scheduler_types_pod_free(pod);
  exports_berth_scheduler_queueing_hint_cluster_event_free(event);
  exports_berth_scheduler_queueing_hint_event_subject_free(raw);
  return queues ? EXPORTS_BERTH_SCHEDULER_QUEUEING_HINT_HINT_QUEUE : EXPORTS_BERTH_SCHEDULER_QUEUEING_HINT_HINT_SKIP;
}
#endif

#ifdef BERTH_EXPORTS_SIGN
bool exports_berth_scheduler_sign_sign(berth_pod *pod, plugin_string_t *ret) {
  berth_forget();
  const char *signature = berth_plugin.sign(pod);
  if (signature) *ret = string_of(signature);
  berth_scheduler_types_pod_free(pod);
  return signature != NULL;
}
#endif

#ifdef BERTH_EXPORTS_EXPLAIN
void exports_berth_scheduler_explain_explain(uint64_t cycle, berth_row *maybe_node, plugin_string_t *ret) {
  const berth_pod *pod = berth_pod_of(cycle);
  berth_forget();
  const char *words = pod ? berth_plugin.explain(pod, maybe_node) : NULL;
  *ret = string_of(words ? words : "");
}
#endif

#ifdef BERTH_EXPORTS_STATE
void exports_berth_scheduler_state_snapshot(plugin_list_u8_t *ret) {
  berth_forget();
  size_t n = 0;
  const char *bytes = berth_plugin.snapshot(&n);
  *ret = bytes_of(bytes, n);
}

bool exports_berth_scheduler_state_restore(plugin_list_u8_t *snapshot, plugin_string_t *err) {
  berth_forget();
  char message[BERTH_ERROR_SIZE] = "";
  bool accepted = berth_plugin.restore((const char *)snapshot->ptr, snapshot->len, message);
  if (!accepted) *err = string_of(message);
  if (snapshot->len) free(snapshot->ptr);
  return accepted;
}
#endif

#ifdef BERTH_EXPORTS_REUSE
void exports_berth_scheduler_reuse_reach_of(uint64_t cycle, exports_berth_scheduler_reuse_reach_t *ret) {
  const berth_pod *pod = berth_pod_of(cycle);
  berth_forget();
  ret->tag = EXPORTS_BERTH_SCHEDULER_REUSE_REACH_CLUSTER;
  if (!pod) return;
  struct berth_reach reach = berth_plugin.reach(pod);
  switch (reach.kind) {
    case BERTH_REACH_CLUSTER:
      break;
    case BERTH_REACH_ROW:
      ret->tag = EXPORTS_BERTH_SCHEDULER_REUSE_REACH_ROW;
      ret->val.row = reach.version;
      break;
    case BERTH_REACH_NOTHING:
      ret->tag = EXPORTS_BERTH_SCHEDULER_REUSE_REACH_NOTHING;
      break;
    case BERTH_REACH_NOTHING_ANYWHERE:
      ret->tag = EXPORTS_BERTH_SCHEDULER_REUSE_REACH_NOTHING_ANYWHERE;
      break;
    case BERTH_REACH_NOTHING_YET:
      ret->tag = EXPORTS_BERTH_SCHEDULER_REUSE_REACH_NOTHING_YET;
      break;
  }
}
#endif
