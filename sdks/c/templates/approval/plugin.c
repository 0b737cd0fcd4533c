/* {{name}}: a pod with the label `example.com/approval: wanted` waits at Permit, and is bound after this approval:
 *
 *     kubectl label --overwrite pod web example.com/approval=given
 *
 * If the value is `denied`, or after the timeout, the pod is rejected. The operator must grant the effect `wait`. */
#include <berth.h>
#include <string.h>

#define APPROVAL "example.com/approval"

static int64_t seconds = 300;

static bool configure(const char *args, char error[BERTH_ERROR_SIZE]) {
  if (!berth_json_only(args, error, "seconds", NULL)) return false;
  enum berth_json found = berth_json_integer(args, "seconds", &seconds);
  if (found != BERTH_JSON_OTHER_TYPE && seconds >= 1 && seconds <= 900) return true;
  strncpy(error, "seconds: must be a number from 1 to 900", BERTH_ERROR_SIZE - 1);
  return false;
}

static berth_verdict permit(const berth_pod *pod, berth_row node, uint64_t *milliseconds, struct berth_effects *effects) {
  (void)node;
  const char *answer = berth_pod_label(pod, APPROVAL);
  if (!answer) return berth_pass();
  if (!strcmp(answer, "denied")) return berth_reject_unresolvable("the pod was denied");
  if (!strcmp(answer, "wanted")) {
    *milliseconds = 1000 * (uint64_t)seconds;
    /* Permit is called again when the pod changes. */
    struct berth_reference itself = {"v1/Pod", berth_text(pod->namespace_), berth_string(&pod->name)};
    berth_wait(effects, &itself, 1, *milliseconds, "the pod was not approved");
  }
  return berth_pass();
}

/* A rejected pod is retried when its labels change. */
static const struct berth_cluster_event events_to_register[] = {{"Pod", BERTH_SCHEDULER_TYPES_ACTIONS_UPDATE_POD_LABEL}, {0}};

const struct berth_plugin berth_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .events_to_register = events_to_register,
    .configure = configure,
    .permit = permit,
};
