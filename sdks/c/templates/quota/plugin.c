/* {{name}}: a tenant may have only a fixed number of pods. The value of a label names a pod's tenant. */
#include <berth.h>
#include <stdlib.h>
#include <string.h>

static const char *label;
static int64_t limit;

/* A pod that is on a node or has a reserved node. */
struct held {
  char *uid, *tenant;
  struct held *next;
};

enum { N_BUCKETS = 1024 };

/* The held pods, by the hash of their uids. */
static struct held *buckets[N_BUCKETS];

static struct held **find(const char *uid) {
  uint32_t hash = 2166136261u;
  for (const char *c = uid; *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
  struct held **place = &buckets[hash % N_BUCKETS];
  while (*place && strcmp((*place)->uid, uid)) place = &(*place)->next;
  return place;
}

static void hold(const berth_pod *pod) {
  const char *tenant = berth_pod_label(pod, label);
  struct held **place = find(berth_string(&pod->uid));
  if (!tenant || *place) return;
  *place = calloc(1, sizeof **place);
  if (!*place) berth_panic("no memory");
  (*place)->uid = strdup(berth_string(&pod->uid));
  (*place)->tenant = strdup(tenant);
}

static void give_back(const berth_pod *pod) {
  struct held **place = find(berth_string(&pod->uid)), *held = *place;
  if (!held) return;
  *place = held->next;
  free(held->uid);
  free(held->tenant);
  free(held);
}

static int64_t count(const char *tenant) {
  int64_t n = 0;
  for (size_t i = 0; i < N_BUCKETS; i++) {
    for (const struct held *held = buckets[i]; held; held = held->next) n += !strcmp(held->tenant, tenant);
  }
  return n;
}

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  if (!berth_json_only(args, error, "label", "limit", NULL)) return false;
  if (berth_json_string(args, "label", &label) == BERTH_JSON_FOUND && *label &&
      berth_json_integer(args, "limit", &limit) == BERTH_JSON_FOUND && limit >= 1) {
    return true;
  }
  strncpy(error, "label and limit: must be the key of a label and a number of pods", BERTH_ERROR_SIZE - 1);
  return false;
}

static void pod_placed(const berth_pod *pod, berth_row node) {
  (void)node;
  hold(pod);
}

static void pod_removed(const berth_pod *pod, berth_row node) {
  (void)node;
  give_back(pod);
}

static berth_verdict pre_filter(const berth_pod *pod, const char *const **nodes) {
  (void)nodes;
  const char *tenant = berth_pod_label(pod, label);
  int64_t n_held = tenant ? count(tenant) : 0;
  if (!tenant || n_held < limit) return berth_pass();
  return berth_reject_unresolvable(berth_concat("tenant ", tenant, " has ", berth_decimal(n_held), " of ",
                                                berth_decimal(limit), " pods", NULL));
}

static berth_verdict reserve(const berth_pod *pod, berth_row node) {
  (void)node;
  hold(pod);
  return berth_pass();
}

static void unreserve(const berth_pod *pod, berth_row node, struct berth_effects *effects) {
  (void)node, (void)effects;
  give_back(pod);
}

static const struct berth_cluster_event events_to_register[] = {{"Pod", BERTH_SCHEDULER_TYPES_ACTIONS_DELETE}, {0}};

const struct berth_plugin berth_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .events_to_register = events_to_register,
    .configure = configure,
    .pod_placed = pod_placed,
    .pod_removed = pod_removed,
    .pre_filter = pre_filter,
    .reserve = reserve,
    .unreserve = unreserve,
};
