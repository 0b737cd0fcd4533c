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
 Loads a scheduler's configuration and plugins. `options` is a JSON object with `config`, `schedulerName`, `pluginsDir`,
 `pluginConfig`, `execution` (`auto`, `native` or `wasm`), `artifactCache` and `emulatedVersion`, as the options of
 `berth simulate`; all may be left out. Plugins are compiled in this process, without the bounds that a scheduler sets: load
 none that you do not trust.

 Returns null and sets `*error`, unless `error` is null, if something cannot be used. The handle may be used from any
 thread; questions wait for each other. Close it with `berth_simulator_close`.
 */
berth_simulator *berth_simulator_open(const char *options,
                                      char **error);

/*
 Sets the cluster that is asked about: manifests in YAML or JSON, as `kubectl get nodes,pods,... -A -o yaml` prints them. The
 one before is forgotten, unless an object cannot be used: then nothing changes, and false is returned.
 */
bool berth_simulator_set_cluster(const berth_simulator *simulator,
                                 const char *manifests,
                                 char **error);

/*
 Places the pods of the cluster that have no node. Returns a `Simulation` in JSON, as `berth simulate -o json` prints it; it is
 freed with `berth_string_free`. Nothing of it is done: the cluster stays as it was set. 0 for `timeout_milliseconds` is a
 minute. Returns null and sets `*error` if it fails.
 */
char *berth_simulator_place(const berth_simulator *simulator,
                            uint32_t timeout_milliseconds,
                            char **error);

/*
 Answers a batch of what-if questions, a `WhatIf` in JSON: which pods go where with nodes added or taken away, and which node
 groups would take them. Returns a `WhatIfAnswer` in JSON; it is freed with `berth_string_free`. 0 for
 `timeout_milliseconds` is a minute. Returns null and sets `*error` if it fails.
 */
char *berth_simulator_what_if(const berth_simulator *simulator,
                              const char *request,
                              uint32_t timeout_milliseconds,
                              char **error);

/*
 Closes a simulator, once no question is under way. Null is let be.

 # Safety
 The handle is from `berth_simulator_open` and is not used afterwards.
 */
void berth_simulator_close(berth_simulator *simulator);

/*
 Frees a text that a function of this library returned. Null is let be.

 # Safety
 The text is from this library and is not used afterwards.
 */
void berth_string_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBBERTH_H */
