/* {{name}}: the argument `label` names a label. A pod with this label runs only on nodes with the same value of the label. A
 * pod without the label runs on any node. */
#include <berth.h>
#include <string.h>

static const char *label;

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  if (!berth_json_only(args, error, "label", NULL)) return false;
  if (berth_json_string(args, "label", &label) == BERTH_JSON_FOUND && *label) return true;
  strncpy(error, "label: must be the key of a label", BERTH_ERROR_SIZE - 1);
  return false;
}

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  const char *wanted = berth_pod_label(pod, label), *value = berth_node_label(node, label);
  if (!wanted || (value && !strcmp(value, wanted))) return berth_pass();
  return berth_reject_unresolvable(berth_concat("node(s) did not have the label ", label, "=", wanted, NULL));
}

/* The events that may make a rejected pod schedulable. */
static const struct berth_cluster_event events_to_register[] = {
    {"Node", BERTH_SCHEDULER_TYPES_ACTIONS_ADD | BERTH_SCHEDULER_TYPES_ACTIONS_UPDATE_NODE_LABEL},
    {0},
};

const struct berth_plugin berth_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_LABELS,
    .events_to_register = events_to_register,
    .configure = configure,
    .filter = filter,
};
