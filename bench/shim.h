/* SPDX-License-Identifier: MIT */
/* Google Benchmark, as much of it as benchmarks written in C need. */
#ifndef BENCH_SHIM_H
#define BENCH_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_state; /* benchmark::State */
typedef void (*bench_body)(struct bench_state *state, const void *job);

/* The time is what the body says (bench_add_seconds). Runs for `seconds`, or (0) as --benchmark_min_time asks, or
 * `iterations` times if that is not 0. */
void bench_register(const char *name, bench_body body, const void *job, int threads, double seconds,
                    int64_t iterations);
int bench_run(int argc, char **argv); /* parses --benchmark_...; answers main's exit status */

bool bench_next(struct bench_state *state,
                int64_t count); /* true: do `count` operations more; a barrier at both ends */
void bench_add_seconds(struct bench_state *state, double seconds);             /* of this thread */
void bench_counter(struct bench_state *state, const char *name, double value); /* threads' values are added */
int bench_thread(const struct bench_state *state);
int bench_threads(const struct bench_state *state);

#ifdef __cplusplus
}
#endif
#endif
