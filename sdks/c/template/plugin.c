/* {{name}}: rejects nodes of the zone that the argument `avoid` names, and prefers nodes that are not cordoned. */
#include <berth.h>
#include <string.h>

static const char *avoid;

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  if (!berth_json_only(args, error, "avoid", NULL)) return false;
  if (berth_json_string(args, "avoid", &avoid) != BERTH_JSON_OTHER_TYPE) return true;
  strncpy(error, "avoid: must be the name of a zone", BERTH_ERROR_SIZE - 1);
  return false;
}

/* Can this node run the pod? */
static berth_verdict filter(const berth_pod *pod, berth_row node) {
  (void)pod;
  const char *zone = berth_node_label(node, "topology.kubernetes.io/zone");
  if (!avoid || !zone || strcmp(zone, avoid)) return berth_pass();
  return berth_reject_unresolvable(berth_concat("node(s) were in the zone ", zone, NULL));
}

/* How good is the node for the pod, from 0 to 100? */
static int64_t score(const berth_pod *pod, berth_row node) {
  (void)pod;
  return berth_node_unschedulable(node) ? 0 : 100;
}

static const char *const labels[] = {"topology.kubernetes.io/zone", NULL};

/* The events that may make a rejected pod schedulable. Without this list, the pod is retried after every event. */
static const struct berth_cluster_event events_to_register[] = {
    {"Node", BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_SCHEDULER_TYPES_ACTIONS_UPDATE_NODE_LABEL},
    {0},
};

const struct berth_plugin berth_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_UNSCHEDULABLE,
    .label_keys = labels,
    .events_to_register = events_to_register,
    .configure = configure,
    .filter = filter,
    .score = score,
};
