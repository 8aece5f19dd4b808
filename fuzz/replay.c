/* SPDX-License-Identifier: MIT */
/*
 * Feeds files, and all files of directories, to a fuzz target: the seeds as tests, without libFuzzer. A target that
 * finds something aborts, so whoever reaches the last line has passed. The last line is "N passed, N failed".
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned passed, failed;

/* The copy has the exact size, so that AddressSanitizer and valgrind see a read past its end. */
static void feed_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about)) {
        perror(path);
        failed++;
        return;
    }
    size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        failed++;
    } else {
        printf("     %s\n", path); /* the last one, if it crashes */
        fflush(stdout);
        (void)LLVMFuzzerTestOneInput(data, size);
        passed++;
    }
    free(data);
    fclose(file);
}

static int no_dots(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void feed(const char *path) {
    struct dirent **names = NULL;
    int n = scandir(path, &names, no_dots, alphasort);
    if (n < 0) {
        feed_file(path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
        feed_file(file);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) feed(argv[i]);
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}
