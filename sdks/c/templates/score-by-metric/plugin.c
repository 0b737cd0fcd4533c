/* {{name}}: prefers nodes with a lower load. A monitor writes the load as a number from 0 to 100 into an annotation:
 *
 *     kubectl annotate --overwrite node node-00001 example.com/load=35 */
#include <berth.h>

#define METRIC "example.com/load"

/* The load of a node, from 0 to 100. A node without a number has the load 100. */
static int64_t load_of(berth_row node) {
  const char *text = berth_node_annotation(node, METRIC);
  int64_t load;
  return text && berth_integer(text, 0, 100, &load) ? load : 100;
}

/* Returns 0 to 100, because the plugin has no `normalize`. */
static int64_t score(const berth_pod *pod, berth_row node) {
  (void)pod;
  return 100 - load_of(node);
}

static const char *const annotations[] = {METRIC, NULL};

const struct berth_plugin berth_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .annotation_keys = annotations,
    .score = score,
};
