// SPDX-License-Identifier: MIT
#include "shim.h"

#include <benchmark/benchmark.h>

namespace {
benchmark::State &of(bench_state *state) { return *reinterpret_cast<benchmark::State *>(state); }
const benchmark::State &of(const bench_state *state) { return *reinterpret_cast<const benchmark::State *>(state); }
} // namespace

void bench_register(const char *name, bench_body body, const void *job, int threads, double seconds,
                    int64_t iterations) {
    auto call = [body, job](benchmark::State &state) { body(reinterpret_cast<bench_state *>(&state), job); };
    auto *made = benchmark::RegisterBenchmark(name, call)->Threads(threads)->UseManualTime();
    if (iterations) made->Iterations(iterations);
    else if (seconds > 0) made->MinTime(seconds);
}

int bench_run(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    return benchmark::RunSpecifiedBenchmarks() ? 0 : 1;
}

bool bench_next(bench_state *state, int64_t count) { return of(state).KeepRunningBatch(count); }
// Google Benchmark keeps one sum; it must not be 0, or it would never have run long enough.
void bench_add_seconds(bench_state *state, double seconds) { of(state).SetIterationTime(seconds); }
void bench_counter(bench_state *state, const char *name, double value) { of(state).counters[name] = value; }
int bench_thread(const bench_state *state) { return of(state).thread_index(); }
int bench_threads(const bench_state *state) { return of(state).threads(); }
