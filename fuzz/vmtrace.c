/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: the vmtrace parser and, for traces that it takes, the sequential replay. No input may crash,
 * leak, or break the map; whether checkpoints match is the input's business.
 */
#define VMREPLAY_NO_MAIN
#include "../examples/vmreplay.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct options options = {.copies = 1, .readers = 1, .quiet = true};
    struct trace trace;
    char err[256];
    memset(&trace, 0, sizeof trace);
    if (parse_trace("fuzz", (const char *)data, size, &trace, err, sizeof err) == 0 &&
        trace.space_names.n < MAX_SLICES) {
        struct replay replay;
        start_replay(&replay, &trace, "fuzz", &options, 1);
        struct worker worker = {.run = &replay};
        replay.learning = true;
        replay_in_order(&worker, true);
        end_worker(&worker);
        struct ivs_report report;
        if (ivs_map_validate(&replay.map, &report)) __builtin_trap();
        end_replay(&replay);
    }
    free_trace(&trace);
    return 0;
}
