/* Keeps nodes with a thousand pods out, and lets the scheduler keep the answers. */
#include <berth.h>

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  (void)pod;
  return berth_node_pod_count(node) < 1000 ? berth_pass() : berth_reject("full");
}

static struct berth_reach reach(const berth_pod *pod) {
  (void)pod;
  return (struct berth_reach){BERTH_REACH_ROW, 7};
}

const struct berth_plugin berth_plugin = {
    .name = "PodCount",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_REQUESTED | BERTH_COLUMN_NON_ZERO_REQUESTED | BERTH_COLUMN_POD_COUNT,
    .filter = filter,
    .reach = reach,
};
