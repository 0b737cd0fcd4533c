/* Asks the simulator everything, and gives it what cannot be used. */
#include <libberth.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(holds)                                                                                                   \
  do {                                                                                                                 \
    if (!(holds)) {                                                                                                    \
      fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                                              \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static const char *const cluster =
    "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}\n"
    "---\n"
    "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {containers: [{name: c, image: i, "
    "resources: {requests: {cpu: 3}}}]}}\n";

static const char *const question =
    "{\"apiVersion\": \"berth.dev/v1alpha1\", \"kind\": \"WhatIf\", \"pods\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\", "
    "\"metadata\": {\"name\": \"q\", \"namespace\": \"default\"}, \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": "
    "\"i\", \"resources\": {\"requests\": {\"cpu\": \"2\"}}}]}}], \"variants\": [{\"name\": \"as it is\"}]}";

/* The error says this; it is freed. */
static void says(char *error, const char *part) {
  CHECK(error != NULL);
  if (!strstr(error, part)) fprintf(stderr, "%s\n", error);
  CHECK(strstr(error, part) != NULL);
  berth_string_free(error);
}

static void *ask_from_another_thread(void *simulator) {
  for (int i = 0; i < 5; i++) {
    char *error = NULL;
    char *answer = berth_simulator_what_if(simulator, question, 0, &error);
    if (error) fprintf(stderr, "%s\n", error);
    CHECK(answer != NULL && error == NULL && strstr(answer, "WhatIfAnswer") != NULL);
    berth_string_free(answer);
  }
  return NULL;
}

int main(void) {
  char *error = NULL;
  CHECK(strlen(berth_version()) > 0);
  CHECK(berth_simulator_open("{\"confg\": 3}", &error) == NULL);
  says(error, "unknown field `confg`");
  CHECK(berth_simulator_open("{\"config\": \"/absent.yaml\"}", &error) == NULL);
  says(error, "/absent.yaml");
  CHECK(berth_simulator_open(NULL, &error) == NULL);
  says(error, "null pointer");

  berth_simulator *simulator = berth_simulator_open("", &error);
  CHECK(simulator != NULL && error == NULL);
  CHECK(!berth_simulator_set_cluster(simulator, "{apiVersion: v1, kind: Node}", &error));
  says(error, "1 object cannot be used");
  CHECK(!berth_simulator_set_cluster(NULL, cluster, &error));
  says(error, "simulator: a null pointer");
  CHECK(!berth_simulator_set_cluster(simulator, "\xff", &error));
  says(error, "manifests is not valid UTF-8");
  CHECK(berth_simulator_set_cluster(simulator, cluster, &error) && error == NULL);

  char *placed = berth_simulator_place(simulator, 0, &error);
  CHECK(placed != NULL && strstr(placed, "\"node\":\"n1\"") != NULL);
  berth_string_free(placed);
  CHECK(berth_simulator_what_if(simulator, "{}", 0, &error) == NULL);
  says(error, "apiVersion");

  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, ask_from_another_thread, simulator) == 0);
  for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);

  berth_simulator_close(simulator);
  berth_simulator_close(NULL);
  berth_string_free(NULL);
  printf("all questions were answered\n");
  return 0;
}
