/* Spells what the pods on a node use, and lets the scheduler keep that. */
#include <berth.h>

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  if (pod->priority > 0) return berth_pass();
  berth_sym gpu = berth_symbol("example.com/gpu");
  const char *requested = berth_concat(berth_decimal(berth_node_requested(node, BERTH_CPU)), ",",
                                       berth_decimal(berth_node_requested(node, BERTH_MEMORY)), ",",
                                       berth_decimal(gpu ? berth_node_requested(node, gpu) : 0), NULL);
  return berth_reject(berth_concat(requested, ",", berth_decimal(berth_node_non_zero_milli_cpu(node)), ",",
                                   berth_decimal(berth_node_non_zero_memory(node)), ",",
                                   berth_decimal(berth_node_pod_count(node)), NULL));
}

static struct berth_reach reach(const berth_pod *pod) {
  if (pod->priority > 0) return (struct berth_reach){BERTH_REACH_NOTHING, 0};
  return (struct berth_reach){BERTH_REACH_ROW, 7};
}

const struct berth_plugin berth_plugin = {
    .name = "Usage",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_REQUESTED | BERTH_COLUMN_NON_ZERO_REQUESTED | BERTH_COLUMN_POD_COUNT,
    .filter = filter,
    .reach = reach,
};
