/* libberth: what-if questions to Berth's scheduler. Made of crates/libberth/src/lib.rs by cbindgen.
 *
 * Texts are UTF-8 and end with a zero byte. Handles and texts that are returned belong to the caller. */

#ifndef LIBBERTH_H
#define LIBBERTH_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/*
 A scheduler with its plugins, and the cluster that it is asked about.
 */
typedef struct berth_simulator berth_simulator;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The library's version. It is not freed.
 */
const char *berth_version(void);

/*
 Loads a scheduler's configuration and plugins. `options` is a JSON object with `config`, `schedulerName`,
 `pluginsDir`, `pluginConfig`, `execution` (`auto`, `native` or `wasm`), `artifactCache` and `emulatedVersion`, as
 the options of `berth simulate`; all may be left out. Plugins are compiled in this process, without the limits that
 a scheduler sets, so load only plugins that you trust.

 If something cannot be used, returns null and sets `*error`, unless `error` is null. The handle may be used from any
 thread; a question waits until the previous question is answered. Close it with `berth_simulator_close`.
 */
berth_simulator *berth_simulator_open(const char *options,
                                      char **error);

/*
 Sets the cluster that is asked about: manifests in YAML or JSON, as `kubectl get nodes,pods,... -A -o yaml` prints
 them. The cluster that was set before is forgotten. If an object cannot be used, false is returned and nothing
 changes.
 */
bool berth_simulator_set_cluster(const berth_simulator *simulator,
                                 const char *manifests,
                                 char **error);

/*
 Places the pods of the cluster that have no node. Returns a `Simulation` in JSON, as `berth simulate -o json` prints
 it; it is freed with `berth_string_free`. No placement is carried out: the cluster stays as it was set. If
 `timeout_milliseconds` is 0, the limit is a minute. Returns null and sets `*error` if the call fails.
 */
char *berth_simulator_place(const berth_simulator *simulator,
                            uint32_t timeout_milliseconds,
                            char **error);

/*
 Answers a batch of what-if questions, a `WhatIf` in JSON: where pods go if nodes are added or removed, and which
 node groups would take them. Returns a `WhatIfAnswer` in JSON; it is freed with `berth_string_free`. If
 `timeout_milliseconds` is 0, the limit is a minute. Returns null and sets `*error` if the call fails.
 */
char *berth_simulator_what_if(const berth_simulator *simulator,
                              const char *request,
                              uint32_t timeout_milliseconds,
                              char **error);

/*
 Closes a simulator after the question that it is answering has ended. Null is ignored.

 # Safety
 The handle is from `berth_simulator_open` and is not used afterwards.
 */
void berth_simulator_close(berth_simulator *simulator);

/*
 Frees a text that a function of this library returned. Null is ignored.

 # Safety
 The text is from this library and is not used afterwards.
 */
void berth_string_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBBERTH_H */
