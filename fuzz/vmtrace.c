/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: the vmtrace parser and, for traces that it takes, the sequential replays: with the recorded results
 * believed, and with all of them predicted. No input may crash, leak, or break a space; whether checkpoints and results
 * match is the input's business.
 */
#define VMREPLAY_NO_MAIN
#include "../examples/vmreplay.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay_once(struct trace *trace, bool predict) {
    const struct options options = {.copies = 1, .readers = 1, .predict = predict, .quiet = true};
    struct replay replay;
    start_replay(&replay, trace, "fuzz", &options, 1);
    struct worker worker = {.run = &replay};
    replay.learning = true;
    replay_in_order(&worker, true);
    end_worker(&worker);
    for (size_t i = 0; i < trace->spaces.n; i++)
        if (replay.places[i].made && iva_space_validate(&replay.places[i].space, NULL)) __builtin_trap();
    end_replay(&replay);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct trace trace;
    char err[256];
    memset(&trace, 0, sizeof trace);
    if (parse_trace("fuzz", (const char *)data, size, &trace, err, sizeof err) == 0 && trace.spaces.n < 256) {
        replay_once(&trace, false);
        replay_once(&trace, true);
    }
    free_trace(&trace);
    return 0;
}
