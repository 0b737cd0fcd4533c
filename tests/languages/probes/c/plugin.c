/* Probe: rejects every node, and spells what it sees of it. */
#include <berth.h>
#include <stdlib.h>
#include <string.h>

static const char *pairs(const char *text, const char *separator, const char *first, const char *second) {
  return berth_concat(text, *text ? "," : "", first, separator, second, NULL);
}

static const char *amounts(berth_row node, int64_t (*amount)(berth_row, berth_sym)) {
  berth_sym gpu = berth_symbol("example.com/gpu");
  return berth_concat(berth_decimal(amount(node, BERTH_CPU)), ",", berth_decimal(amount(node, BERTH_MEMORY)), ",",
                      berth_decimal(amount(node, BERTH_PODS)), ",", berth_decimal(gpu ? amount(node, gpu) : 0), ";", NULL);
}

static const char *labels(berth_row node) {
  /* The SDK gives labels by key; the probe's cluster has these. */
  static const char *const keys[] = {"kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/empty",
                                     "größe", "a", "n"};
  berth_sym known[6];
  const char *text = "";
  for (int i = 0; i < 6; i++) known[i] = berth_symbol(keys[i]);
  for (int i = 0; i < 6; i++) {
    for (int j = i + 1; j < 6; j++) {
      if (known[j] < known[i]) {
        berth_sym other = known[i];
        known[i] = known[j];
        known[j] = other;
      }
    }
    berth_sym value;
    if (known[i] && berth_node_has_label(node, known[i], &value)) {
      text = pairs(text, "=", berth_text(known[i]), berth_text(value));
    }
  }
  return text;
}

static const char *const annotation_keys[] = {"example.com/empty", "example.com/note", NULL};

static const char *annotations(berth_row node) {
  const char *text = "";
  for (int i = 0; annotation_keys[i]; i++) {
    const char *value = berth_node_annotation(node, annotation_keys[i]);
    if (value) text = pairs(text, "=", annotation_keys[i], value);
  }
  return text;
}

static const char *name_of(const berth_pod *pod) {
  char name[64] = "";
  for (size_t i = 0; i < pod->name.len && i < sizeof name - 1; i++) name[i] = (char)pod->name.ptr[i];
  return berth_concat(berth_text(pod->namespace_), "/", name, NULL);
}

static const char *placement(const berth_pod *pod, berth_row node) {
  return berth_concat(name_of(pod), "@", berth_node_name(node), NULL);
}

/* Placements that the plugin was told of. */
enum { MOST = 64 };
static char *followed[MOST];

static void pod_placed(const berth_pod *pod, berth_row node) {
  for (int i = 0; i < MOST; i++) {
    if (followed[i]) continue;
    followed[i] = strdup(placement(pod, node));
    return;
  }
  berth_panic("too many pods");
}

static void pod_removed(const berth_pod *pod, berth_row node) {
  const char *text = placement(pod, node);
  for (int i = 0; i < MOST; i++) {
    if (!followed[i] || strcmp(followed[i], text)) continue;
    free(followed[i]);
    followed[i] = NULL;
    return;
  }
  berth_panic(berth_concat(text, " was never placed", NULL));
}

/* The cluster: all nodes, all pods, and those that the plugin was told of. */
static const char *cluster(void) {
  const char *names = "", *placements = "", *told = "";
  size_t n;
  const berth_row *node = berth_nodes(&n);
  for (size_t i = 0; i < n; i++) names = pairs(names, "", berth_node_name(node[i]), "");
  const berth_pod *const *pod = berth_pods(&n);
  for (size_t i = 0; i < n; i++) placements = pairs(placements, "", placement(pod[i], berth_pod_node(pod[i])), "");
  for (int i = 0; i < MOST; i++) {
    if (followed[i]) told = pairs(told, "", followed[i], "");
  }
  return berth_concat(names, ";", placements, ";", told, ";", NULL);
}

static bool faults, errs;

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  (void)error;
  faults = !strcmp(args, "\"fault\"");
  errs = !strcmp(args, "\"error\"");
  return true;
}

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  if (faults) berth_panic("on demand");
  if (errs) return berth_fail("on purpose");
  static const char *const effects[] = {":NoSchedule", ":PreferNoSchedule", ":NoExecute"};
  const char *taints = "", *images = "", *ports = "", *features = "", *pod_labels = "";
  size_t n;
  const berth_taint *taint = berth_node_taints(node, &n);
  for (size_t i = 0; i < n; i++) {
    taints = pairs(taints, "=", berth_text(taint[i].key),
                   berth_concat(berth_text(taint[i].value), effects[taint[i].effect], NULL));
  }
  const berth_sym *image = berth_node_images(node, &n);
  for (size_t i = 0; i < n; i++) images = pairs(images, "=", berth_text(image[i]), berth_decimal(berth_image_size(image[i])));
  const berth_host_port *port = berth_node_host_ports(node, &n);
  for (size_t i = 0; i < n; i++) {
    ports = pairs(ports, "/", berth_text(port[i].address),
                  berth_concat(berth_text(port[i].protocol), "/", berth_decimal(port[i].port), NULL));
  }
  const berth_sym *feature = berth_node_declared_features(node, &n);
  for (size_t i = 0; i < n; i++) features = pairs(features, "", berth_text(feature[i]), "");
  for (size_t i = 0; i < pod->labels.len; i++) {
    pod_labels = pairs(pod_labels, "=", berth_text(pod->labels.ptr[i].f0), berth_text(pod->labels.ptr[i].f1));
  }
  const char *placed = "";
  const berth_pod *const *pods = berth_node_pods(node, &n);
  for (size_t i = 0; i < n; i++) placed = pairs(placed, "", name_of(pods[i]), "");
  const char *text = berth_concat(
      berth_node_name(node), berth_node_unschedulable(node) ? ";1;" : ";0;", labels(node), ";", taints, ";",
      amounts(node, berth_node_allocatable), amounts(node, berth_node_requested),
      berth_decimal(berth_node_non_zero_milli_cpu(node)), ",", berth_decimal(berth_node_non_zero_memory(node)), ";",
      berth_decimal(berth_node_pod_count(node)), ";", images, ";", ports, ";", features, ";", NULL);
  return berth_reject(berth_concat(text, name_of(pod), ";", pod_labels, ";", annotations(node), ";",
                                   berth_decimal(pod->priority), ",", berth_decimal(pod->requests.milli_cpu), ",",
                                   berth_decimal(pod->requests.memory), ";", placed, ";",
                                   strcmp(berth_node_name(node), "bare") ? "" : cluster(), NULL));
}

const struct berth_plugin berth_plugin = {
    .name = "Probe",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_NAME | BERTH_COLUMN_UNSCHEDULABLE | BERTH_COLUMN_LABELS | BERTH_COLUMN_TAINTS |
               BERTH_COLUMN_ALLOCATABLE | BERTH_COLUMN_REQUESTED | BERTH_COLUMN_NON_ZERO_REQUESTED |
               BERTH_COLUMN_POD_COUNT | BERTH_COLUMN_IMAGES | BERTH_COLUMN_HOST_PORTS | BERTH_COLUMN_DECLARED_FEATURES,
    .annotation_keys = annotation_keys,
    .configure = configure,
    .pod_placed = pod_placed,
    .pod_removed = pod_removed,
    .filter = filter,
};
