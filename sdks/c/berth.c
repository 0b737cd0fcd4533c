/* The exports of the contract. They call `berth_plugin` with data of the replica in table.c. */
#include "berth.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

/* The open cycles, of which there are few. Each has its pod and the pods that its dry runs have named. */
struct cycle {
  uint64_t id;
  berth_pod pod;
  berth_pod *tried;
  size_t n_tried;
};

static struct cycle *cycles;
static size_t n_cycles;

static struct cycle *cycle_of(uint64_t id) {
  for (size_t i = 0; i < n_cycles; i++) {
    if (cycles[i].id == id) return &cycles[i];
  }
  return NULL;
}

const berth_pod *berth_pod_of(uint64_t id) {
  struct cycle *cycle = cycle_of(id);
  return cycle ? &cycle->pod : NULL;
}

#if defined(BERTH_EXPORTS_CYCLE) || defined(BERTH_EXPORTS_FILTER)
static void forget_tried(struct cycle *cycle, size_t keep) {
  while (cycle->n_tried > keep) berth_scheduler_types_pod_free(&cycle->tried[--cycle->n_tried]);
}
#endif

/* A piece of memory that is freed when the plugin is called again. */
struct chunk {
  struct chunk *next;
};

static struct chunk *chunks;

void berth_forget(void) {
  while (chunks) {
    struct chunk *next = chunks->next;
    free(chunks);
    chunks = next;
  }
}

void *berth_allocate_for_call(size_t size) {
  struct chunk *chunk = berth_table_allocate(sizeof *chunk + size);
  chunk->next = chunks;
  chunks = chunk;
  return chunk + 1;
}

const char *berth_concat(const char *first, ...) {
  va_list strings;
  size_t length = 0;
  va_start(strings, first);
  for (const char *s = first; s; s = va_arg(strings, const char *)) length += strlen(s);
  va_end(strings);
  char *text = berth_allocate_for_call(length + 1), *end = text;
  va_start(strings, first);
  for (const char *s = first; s; s = va_arg(strings, const char *)) {
    size_t n = strlen(s);
    memcpy(end, s, n);
    end += n;
  }
  va_end(strings);
  *end = 0;
  return text;
}

const char *berth_string(const plugin_string_t *string) {
  char *text = berth_allocate_for_call(string->len + 1);
  if (string->len) memcpy(text, string->ptr, string->len);
  return text;
}

const char *berth_decimal(int64_t value) {
  char digits[24], *first = digits + sizeof digits - 1;
  *first = 0;
  uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;
  do *--first = (char)('0' + left % 10);
  while (left /= 10);
  if (value < 0) *--first = '-';
  return berth_concat(first, NULL);
}

uint64_t berth_now(void) { return berth_scheduler_host_now(); }

static void set_string(plugin_string_t *string, const char *text) { plugin_string_dup(string, text); }

void berth_set_status(berth_scheduler_types_status_t *status, berth_verdict verdict) {
  status->code = verdict.code;
  status->reasons.ptr = NULL;
  status->reasons.len = 0;
  if (verdict.reason) {
    status->reasons.ptr = berth_table_allocate(sizeof(plugin_string_t));
    status->reasons.len = 1;
    set_string(status->reasons.ptr, verdict.reason);
  }
}

berth_verdict berth_fail(const char *reason) { return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_ERROR, reason}; }

/* The last error that a call logs before it traps is the reason of the fault. */
void berth_panic_at(const char *message, const char *file, unsigned line) {
  berth_log(BERTH_SCHEDULER_HOST_LEVEL_ERROR, berth_concat(message, ", at ", file, ":", berth_decimal(line), NULL));
  __builtin_trap();
}

berth_verdict berth_pass(void) { return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_SUCCESS, NULL}; }

berth_verdict berth_reject(const char *reason) {
  return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_UNSCHEDULABLE, reason};
}

berth_verdict berth_reject_unresolvable(const char *reason) {
  return (berth_verdict){BERTH_SCHEDULER_TYPES_CODE_UNSCHEDULABLE_AND_UNRESOLVABLE, reason};
}

void berth_log(berth_scheduler_host_level_t level, const char *message) {
  plugin_string_t text = {(uint8_t *)message, strlen(message)};
  berth_scheduler_host_log(level, &text);
}

void berth_count(const char *name, uint64_t amount) {
  plugin_string_t text = {(uint8_t *)name, strlen(name)};
  berth_scheduler_host_count(&text, amount);
}

bool berth_follows_pods(void) { return berth_plugin.pods || berth_plugin.pod_placed || berth_plugin.pod_removed; }

static _Noreturn void refuse(const char *mistake) {
  berth_log(BERTH_SCHEDULER_HOST_LEVEL_ERROR, mistake);
  __builtin_trap();
}

static void require(bool is_there, const char *interface, const char *member) {
  if (!is_there) refuse(berth_concat("plugin.wit exports ", interface, ", and berth_plugin has no .", member, NULL));
}

/* Whether `text` points to a valid key, resource or kind. */
static bool is_name(const char *text) {
  const char *end_of_memory = (const char *)(__builtin_wasm_memory_size(0) << 16), *c = text;
  while (c < end_of_memory && *c > ' ' && *c <= '~') c++;
  return c > text && c < end_of_memory && !*c;
}

/* The maximum number of columns that the scheduler accepts. It accepts fewer events and kinds. */
enum { MOST_ENTRIES = 256 };

/* If the end of a list is missing, the list continues into the memory after it. lists.py finds such lists if the source shows
 * their entries. */
static void check_entry(size_t n, bool is_entry, const char *member, const char *end) {
  if (is_entry && n < MOST_ENTRIES) return;
  refuse(berth_concat(member, " is not ended by ", end, ", or has an incomplete entry", NULL));
}

static size_t n_keys(const char *const *keys, const char *member) {
  size_t n = 0;
  for (; keys && keys[n]; n++) check_entry(n, is_name(keys[n]), member, "NULL");
  return n;
}

static size_t n_kinds(const struct berth_object_kind *kinds) {
  size_t n = 0;
  for (; kinds && kinds[n].kind; n++) {
    check_entry(n, is_name(kinds[n].kind) && is_name(kinds[n].api_version), "objects", "{0}");
  }
  return n;
}

static size_t n_events(const struct berth_cluster_event *events) {
  size_t n = 0;
  for (; events && events[n].resource; n++) {
    check_entry(n, is_name(events[n].resource) && events[n].actions, "events_to_register", "{0}");
  }
  return n;
}

/* Checks that the plugin has the functions of each interface that plugin.wit exports. */
static void check_members(void) {
  require(berth_plugin.name && berth_plugin.version, "lifecycle", "name or no .version");
#ifdef BERTH_EXPORTS_PRE_ENQUEUE
  require(berth_plugin.pre_enqueue, "pre-enqueue", "pre_enqueue");
#endif
#ifdef BERTH_EXPORTS_QUEUE_SORT
  require(berth_plugin.sort_key, "queue-sort", "sort_key");
#endif
#ifdef BERTH_EXPORTS_PRE_FILTER
  require(berth_plugin.pre_filter, "pre-filter", "pre_filter");
#endif
#ifdef BERTH_EXPORTS_FILTER
  require(berth_plugin.filter, "filter", "filter");
#endif
#ifdef BERTH_EXPORTS_POST_FILTER
  require(berth_plugin.post_filter, "post-filter", "post_filter");
#endif
#ifdef BERTH_EXPORTS_PRE_SCORE
  require(berth_plugin.pre_score, "pre-score", "pre_score");
#endif
#ifdef BERTH_EXPORTS_SCORE
  require(berth_plugin.score || berth_plugin.score_nodes, "score", "score and no .score_nodes");
#endif
#ifdef BERTH_EXPORTS_NORMALIZE_SCORE
  require(berth_plugin.normalize, "normalize-score", "normalize");
#endif
#ifdef BERTH_EXPORTS_RESERVE
  require(berth_plugin.reserve, "reserve", "reserve");
  require(berth_plugin.unreserve, "reserve", "unreserve");
#endif
#ifdef BERTH_EXPORTS_PERMIT
  require(berth_plugin.permit, "permit", "permit");
#endif
#ifdef BERTH_EXPORTS_PRE_BIND_PRE_FLIGHT
  require(berth_plugin.pre_bind_pre_flight, "pre-bind-pre-flight", "pre_bind_pre_flight");
#endif
#ifdef BERTH_EXPORTS_PRE_BIND
  require(berth_plugin.pre_bind, "pre-bind", "pre_bind");
#endif
#ifdef BERTH_EXPORTS_BIND
  require(berth_plugin.bind, "bind", "bind");
#endif
#ifdef BERTH_EXPORTS_POST_BIND
  require(berth_plugin.post_bind, "post-bind", "post_bind");
#endif
#ifdef BERTH_EXPORTS_QUEUEING_HINT
  require(berth_plugin.queueing_hint, "queueing-hint", "queueing_hint");
#endif
#ifdef BERTH_EXPORTS_SIGN
  require(berth_plugin.sign, "sign", "sign");
#endif
#ifdef BERTH_EXPORTS_EXPLAIN
  require(berth_plugin.explain, "explain", "explain");
#endif
#ifdef BERTH_EXPORTS_REUSE
  require(berth_plugin.reach, "reuse", "reach");
#endif
#ifdef BERTH_EXPORTS_STATE
  require(berth_plugin.snapshot, "state", "snapshot");
  require(berth_plugin.restore, "state", "restore");
#endif
}

void exports_berth_scheduler_lifecycle_describe(exports_berth_scheduler_lifecycle_manifest_t *manifest) {
  check_members();
  memset(manifest, 0, sizeof *manifest);
  set_string(&manifest->name, berth_plugin.name);
  set_string(&manifest->version, berth_plugin.version);
  manifest->pods = berth_follows_pods();
  manifest->pod_json = berth_plugin.pod_json;
  manifest->objects.len = n_kinds(berth_plugin.objects);
  manifest->objects.ptr = berth_table_allocate(manifest->objects.len * sizeof *manifest->objects.ptr);
  for (size_t i = 0; i < manifest->objects.len; i++) {
    set_string(&manifest->objects.ptr[i].api_version, berth_plugin.objects[i].api_version);
    set_string(&manifest->objects.ptr[i].kind, berth_plugin.objects[i].kind);
  }
  const struct berth_cluster_event *registered = berth_plugin.events_to_register;
  manifest->events_to_register.is_some = registered != NULL;
  exports_berth_scheduler_lifecycle_list_cluster_event_t *events = &manifest->events_to_register.val;
  events->len = n_events(registered);
  events->ptr = berth_table_allocate(events->len * sizeof *events->ptr);
  for (size_t i = 0; i < events->len; i++) {
    set_string(&events->ptr[i].resource, registered[i].resource);
    events->ptr[i].actions = registered[i].actions;
  }
  size_t n_labels = n_keys(berth_plugin.label_keys, "label_keys");
  size_t n_annotations = n_keys(berth_plugin.annotation_keys, "annotation_keys");
  manifest->columns.ptr = berth_table_allocate((32 + n_labels + n_annotations) * sizeof *manifest->columns.ptr);
  for (uint8_t column = 0; column < 32; column++) {
    if (berth_plugin.columns >> column & 1) manifest->columns.ptr[manifest->columns.len++].tag = column;
  }
  for (size_t i = 0; i < n_labels; i++) {
    exports_berth_scheduler_lifecycle_column_t *column = &manifest->columns.ptr[manifest->columns.len++];
    column->tag = EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_LABEL;
    set_string(&column->val.label, berth_plugin.label_keys[i]);
  }
  for (size_t i = 0; i < n_annotations; i++) {
    exports_berth_scheduler_lifecycle_column_t *column = &manifest->columns.ptr[manifest->columns.len++];
    column->tag = EXPORTS_BERTH_SCHEDULER_LIFECYCLE_COLUMN_ANNOTATION;
    set_string(&column->val.annotation, berth_plugin.annotation_keys[i]);
  }
}

bool exports_berth_scheduler_lifecycle_configure(plugin_string_t *args, plugin_string_t *err) {
  char message[BERTH_ERROR_SIZE] = "";
  char *json = berth_table_allocate(args->len + 1);
  memcpy(json, args->ptr, args->len);
  bool accepted = !berth_plugin.configure || berth_plugin.configure(json, message);
  if (!accepted) set_string(err, message);
  free(json);
  plugin_string_free(args);
  return accepted;
}

#ifdef BERTH_EXPORTS_SYNC
void exports_berth_scheduler_sync_apply(exports_berth_scheduler_sync_delta_t *delta) {
  berth_table_apply(delta);
  exports_berth_scheduler_sync_delta_free(delta);
}
#endif

#ifdef BERTH_EXPORTS_CYCLE
void exports_berth_scheduler_cycle_begin(uint64_t id, berth_pod *pod) {
  exports_berth_scheduler_cycle_end(id);
  cycles = berth_table_resize(cycles, (n_cycles + 1) * sizeof *cycles);
  cycles[n_cycles++] = (struct cycle){id, *pod, NULL, 0};
}

void exports_berth_scheduler_cycle_end(uint64_t id) {
  struct cycle *cycle = cycle_of(id);
  if (!cycle) return;
  berth_scheduler_types_pod_free(&cycle->pod);
  forget_tried(cycle, 0);
  free(cycle->tried);
  *cycle = cycles[--n_cycles];
}
#endif

/* The pod of the cycle. If the cycle is not open, the result is NULL and `status` is an error. */
const berth_pod *berth_enter(uint64_t cycle, berth_scheduler_types_status_t *status) {
  berth_forget();
  const berth_pod *pod = berth_pod_of(cycle);
  if (!pod) berth_set_status(status, berth_fail("called outside a cycle"));
  return pod;
}

berth_row *berth_rows(const berth_scheduler_types_rows_t *nodes, size_t *n_nodes) {
  *n_nodes = 0;
  for (size_t word = 0; word < nodes->len; word++) *n_nodes += (size_t)__builtin_popcountll(nodes->ptr[word]);
  berth_row *rows = berth_table_allocate(*n_nodes * sizeof *rows);
  berth_row *next = rows;
  for (size_t word = 0; word < nodes->len; word++) {
    for (uint64_t left = nodes->ptr[word]; left; left &= left - 1) {
      *next++ = (berth_row)(word * 64 + (size_t)__builtin_ctzll(left));
    }
  }
  return rows;
}

#ifdef BERTH_EXPORTS_FILTER
bool exports_berth_scheduler_filter_filter(uint64_t cycle, berth_scheduler_types_rows_t *candidates,
                                           berth_scheduler_types_rows_t *ret, berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  if (!pod) {
    berth_scheduler_types_rows_free(candidates);
    return false;
  }
  if (berth_plugin.filter_nodes) {
    berth_plugin.filter_nodes(pod, candidates->ptr, candidates->len);
  } else {
    for (size_t word = 0; word < candidates->len; word++) {
      for (uint64_t left = candidates->ptr[word]; left; left &= left - 1) {
        berth_row node = (berth_row)(word * 64 + (size_t)__builtin_ctzll(left));
        berth_verdict verdict = berth_plugin.filter(pod, node);
        if (verdict.code == BERTH_SCHEDULER_TYPES_CODE_ERROR) {
          berth_set_status(err, verdict);
          berth_scheduler_types_rows_free(candidates);
          return false;
        }
        if (verdict.code != BERTH_SCHEDULER_TYPES_CODE_SUCCESS) candidates->ptr[word] &= ~(left & -left);
      }
    }
  }
  *ret = *candidates;
  return true;
}

static bool is_same(const berth_scheduler_types_status_t *status, berth_verdict verdict) {
  if (status->code != verdict.code || status->reasons.len != (verdict.reason ? 1 : 0)) return false;
  if (!verdict.reason) return true;
  size_t length = strlen(verdict.reason);
  return status->reasons.ptr->len == length && !memcmp(status->reasons.ptr->ptr, verdict.reason, length);
}

/* The group of nodes with this verdict. A missing group is added. */
static exports_berth_scheduler_filter_rejected_nodes_t *group(exports_berth_scheduler_filter_list_rejected_nodes_t *groups,
                                                           berth_verdict verdict, size_t n_words) {
  for (size_t i = 0; i < groups->len; i++) {
    if (is_same(&groups->ptr[i].status, verdict)) return &groups->ptr[i];
  }
  groups->ptr = berth_table_resize(groups->ptr, (groups->len + 1) * sizeof *groups->ptr);
  exports_berth_scheduler_filter_rejected_nodes_t *made = &groups->ptr[groups->len++];
  berth_set_status(&made->status, verdict);
  made->nodes.ptr = berth_table_allocate(n_words * sizeof(uint64_t));
  made->nodes.len = n_words;
  return made;
}

bool exports_berth_scheduler_filter_node_to_status(uint64_t cycle, berth_scheduler_types_rows_t *rejected,
                                            exports_berth_scheduler_filter_list_rejected_nodes_t *ret,
                                            berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  ret->ptr = NULL;
  ret->len = 0;
  for (size_t word = 0; pod && word < rejected->len; word++) {
    for (uint64_t left = rejected->ptr[word]; left; left &= left - 1) {
      berth_row node = (berth_row)(word * 64 + (size_t)__builtin_ctzll(left));
      berth_verdict verdict = berth_plugin.filter(pod, node);
      if (verdict.code != BERTH_SCHEDULER_TYPES_CODE_SUCCESS) {
        group(ret, verdict, rejected->len)->nodes.ptr[word] |= left & -left;
      }
    }
  }
  berth_scheduler_types_rows_free(rejected);
  return pod != NULL;
}

/* Sets the pods of a dry run: the first `keep` pods of the cycle's previous dry run, then `more`, which the cycle then owns. */
static void try_pods(struct cycle *cycle, size_t keep, exports_berth_scheduler_filter_list_pod_t *more) {
  forget_tried(cycle, keep);
  cycle->tried = berth_table_resize(cycle->tried, (cycle->n_tried + more->len) * sizeof *cycle->tried);
  if (!more->len) return;
  memcpy(cycle->tried + cycle->n_tried, more->ptr, more->len * sizeof *more->ptr);
  cycle->n_tried += more->len;
  free(more->ptr);
}

bool exports_berth_scheduler_filter_dry_run(uint64_t id, uint32_t keep, exports_berth_scheduler_filter_list_pod_t *pods,
                                            exports_berth_scheduler_filter_list_dry_run_case_t *cases,
                                            exports_berth_scheduler_filter_list_status_t *ret,
                                            berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(id, err);
  if (pod) {
    struct cycle *cycle = cycle_of(id);
    try_pods(cycle, keep, pods);
    ret->len = cases->len;
    ret->ptr = berth_table_allocate(cases->len * sizeof *ret->ptr);
    for (size_t i = 0; i < cases->len; i++) {
      const exports_berth_scheduler_filter_dry_run_case_t *change = &cases->ptr[i];
      berth_table_alter(change, cycle->tried);
      berth_set_status(&ret->ptr[i], berth_plugin.filter(pod, change->node));
      berth_table_restore(change, cycle->tried);
    }
  } else {
    exports_berth_scheduler_filter_list_pod_free(pods);
  }
  exports_berth_scheduler_filter_list_dry_run_case_free(cases);
  return pod != NULL;
}
#endif

#ifdef BERTH_EXPORTS_SCORE
bool exports_berth_scheduler_score_score(uint64_t cycle, berth_scheduler_types_rows_t *nodes, plugin_list_s64_t *ret,
                                         berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  if (pod) {
    size_t n_nodes;
    berth_row *rows = berth_rows(nodes, &n_nodes);
    ret->len = n_nodes;
    ret->ptr = berth_table_allocate(n_nodes * sizeof *ret->ptr);
    if (berth_plugin.score_nodes) {
      berth_plugin.score_nodes(pod, rows, n_nodes, ret->ptr);
    } else {
      for (size_t i = 0; i < n_nodes; i++) ret->ptr[i] = berth_plugin.score(pod, rows[i]);
    }
    free(rows);
  }
  berth_scheduler_types_rows_free(nodes);
  return pod != NULL;
}
#endif

#ifdef BERTH_EXPORTS_NORMALIZE_SCORE
bool exports_berth_scheduler_normalize_score_normalize_score(uint64_t cycle, berth_scheduler_types_rows_t *nodes,
                                                             plugin_list_s64_t *scores, plugin_list_s64_t *ret,
                                                             berth_scheduler_types_status_t *err) {
  const berth_pod *pod = berth_enter(cycle, err);
  berth_scheduler_types_rows_free(nodes);
  if (!pod) {
    plugin_list_s64_free(scores);
    return false;
  }
  berth_plugin.normalize(pod, scores->ptr, scores->len);
  *ret = *scores;
  return true;
}
#endif
