/* NodeMetadata: prefers nodes by the integer in one of their labels, and can require that label.
 *
 * Arguments: key (required), order ("ascending", the default: higher values score higher; or "descending"), require
 * (nodes without the label are rejected). */
#include <berth.h>
#include <string.h>

static const char *key;
static bool is_descending;
static bool is_required;

/* Lower than the score of any 32-bit value. */
static const int64_t NO_VALUE = -((int64_t)1 << 31) - 1;

static bool refuse(char error[BERTH_ERROR_SIZE], const char *reason) {
  strncpy(error, reason, BERTH_ERROR_SIZE - 1);
  return false;
}

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  const char *order = "ascending";
  if (!berth_json_only(args, error, "key", "order", "require", NULL)) return false;
  if (berth_json_string(args, "key", &key) != BERTH_JSON_FOUND || !*key) {
    return refuse(error, "key: the name of a node label is required");
  }
  if (berth_json_string(args, "order", &order) == BERTH_JSON_OTHER_TYPE ||
      (strcmp(order, "ascending") && strcmp(order, "descending"))) {
    return refuse(error, "order: must be \"ascending\" or \"descending\"");
  }
  if (berth_json_bool(args, "require", &is_required) == BERTH_JSON_OTHER_TYPE) {
    return refuse(error, "require: must be true or false");
  }
  is_descending = !strcmp(order, "descending");
  return true;
}

static berth_verdict filter(const berth_pod *pod, berth_row node) {
  (void)pod;
  if (!is_required || berth_node_label(node, key)) return berth_pass();
  return berth_reject_unresolvable(berth_concat("node(s) didn't have the label ", key, NULL));
}

static int64_t score(const berth_pod *pod, berth_row node) {
  (void)pod;
  int64_t value;
  const char *text = berth_node_label(node, key);
  if (!text || !berth_integer(text, INT32_MIN, INT32_MAX, &value)) return NO_VALUE;
  return is_descending ? -value : value;
}

/* 1 to 100 for nodes with a value, 0 for those without. */
static void normalize(const berth_pod *pod, int64_t *scores, size_t n_scores) {
  (void)pod;
  int64_t least = INT64_MAX, most = NO_VALUE;
  for (size_t i = 0; i < n_scores; i++) {
    if (scores[i] != NO_VALUE && scores[i] < least) least = scores[i];
    if (scores[i] > most) most = scores[i];
  }
  for (size_t i = 0; i < n_scores; i++) {
    if (scores[i] == NO_VALUE) {
      scores[i] = 0;
    } else {
      scores[i] = most == least ? 100 : 1 + 99 * (scores[i] - least) / (most - least);
    }
  }
}

const struct berth_plugin berth_plugin = {
    .name = "NodeMetadata",
    .version = "0.1.0",
    .columns = BERTH_COLUMN_LABELS,
    .configure = configure,
    .filter = filter,
    .score = score,
    .normalize = normalize,
};
