/* SPDX-License-Identifier: MIT */
/* The example replays recorded traces and says where a bad one is bad. Runs from the checkout's top. */
/* VMREPLAY (environment) names the binary. */
#include "support.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef DEFAULT_VMREPLAY
#define DEFAULT_VMREPLAY "build/vmreplay"
#endif

static const char *binary(void) {
    const char *path = getenv("VMREPLAY");
    return path && *path ? path : DEFAULT_VMREPLAY;
}

/* Runs the example; keeps the beginning of what it says on stderr. Gives its exit status, or -1. */
static int run(char *const *argv, char *said, size_t room) {
    int channel[2], status = 0;
    size_t length = 0;
    char scrap[4096];
    ssize_t got;
    if (!CHECK(!pipe(channel), "pipe")) return -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(channel[1], STDERR_FILENO);
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
        close(channel[0]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(channel[1]);
    while ((got = read(channel[0], scrap, sizeof scrap)) > 0) {
        size_t keep = (size_t)got < room - 1 - length ? (size_t)got : room - 1 - length;
        memcpy(said + length, scrap, keep);
        length += keep;
    }
    said[length] = 0;
    close(channel[0]);
    if (!CHECK(child > 0 && waitpid(child, &status, 0) == child, "fork or wait")) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Every file of the pattern, with the words of the mode in front, ends with `wanted`. */
static void replay_all(const char *pattern, char *const *mode, size_t words, int wanted) {
    glob_t found;
    if (!CHECK(!glob(pattern, 0, NULL, &found) && found.gl_pathc, "no file matches %s", pattern)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *argv[8] = {(char *)(uintptr_t)binary()};
        char said[2048];
        size_t n = 1;
        for (size_t k = 0; k < words; k++) argv[n++] = mode[k];
        argv[n++] = found.gl_pathv[i];
        int status = run(argv, said, sizeof said);
        CHECK(status == wanted, "%s %s %s: status %d, expected %d: %s", argv[0], words ? mode[0] : "",
              found.gl_pathv[i], status, wanted, said);
    }
    globfree(&found);
}

TEST(vmreplay, recorded_traces_match_in_file_order) { replay_all("tests/data/*.vmtrace", NULL, 0, 0); }

TEST(vmreplay, recorded_traces_match_with_four_threads) {
    static char option[] = "--threads", count[] = "4";
    char *mode[] = {option, count};
    replay_all("tests/data/*.vmtrace", mode, 2, 0);
}

TEST(vmreplay, recorded_traces_match_with_a_thread_for_each_thread) {
    static char option[] = "--parallel";
    char *mode[] = {option};
    replay_all("tests/data/*.vmtrace", mode, 1, 0);
}

TEST(vmreplay, a_trace_that_the_map_does_not_match_is_told) {
    static char parallel[] = "--parallel";
    char *mode[] = {parallel};
    replay_all("tests/data/differs/*.vmtrace", NULL, 0, 1);
    replay_all("tests/data/differs/*.vmtrace", mode, 1, 1);
}

/* "path:NUMBER:" somewhere in the text. */
static bool names_the_line(const char *text, const char *path) {
    size_t length = strlen(path);
    for (const char *at = strstr(text, path); at; at = strstr(at + 1, path)) {
        const char *p = at + length;
        if (*p++ != ':' || *p < '0' || *p > '9') continue;
        while (*p >= '0' && *p <= '9') p++;
        if (*p == ':') return true;
    }
    return false;
}

TEST(vmreplay, a_bad_trace_is_answered_with_file_and_line) {
    glob_t found;
    if (!CHECK(!glob("tests/data/bad/*", 0, NULL, &found) && found.gl_pathc, "no bad trace")) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *argv[] = {(char *)(uintptr_t)binary(), found.gl_pathv[i], NULL};
        char said[2048];
        int status = run(argv, said, sizeof said);
        CHECK(status == 2, "%s: status %d: %s", found.gl_pathv[i], status, said);
        CHECK(names_the_line(said, found.gl_pathv[i]), "%s: says \"%s\"", found.gl_pathv[i], said);
    }
    globfree(&found);
}
