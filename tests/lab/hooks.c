/* SPDX-License-Identifier: MIT */
/*
 * What -fsanitize-coverage=edge,trace-loads,trace-stores calls. In a file of its own: the compiler leaves a file that
 * defines these without any hook.
 */
#include "lab.h"

void __sanitizer_cov_load1(const uint8_t *at);
void __sanitizer_cov_load2(const uint16_t *at);
void __sanitizer_cov_load4(const uint32_t *at);
void __sanitizer_cov_load8(const uint64_t *at);
void __sanitizer_cov_load16(const void *at);
void __sanitizer_cov_store1(uint8_t *at);
void __sanitizer_cov_store2(uint16_t *at);
void __sanitizer_cov_store4(uint32_t *at);
void __sanitizer_cov_store8(uint64_t *at);
void __sanitizer_cov_store16(void *at);

void __sanitizer_cov_load1(const uint8_t *at) { lab_plain(at, 1, false); }
void __sanitizer_cov_load2(const uint16_t *at) { lab_plain(at, 2, false); }
void __sanitizer_cov_load4(const uint32_t *at) { lab_plain(at, 4, false); }
void __sanitizer_cov_load8(const uint64_t *at) { lab_plain(at, 8, false); }
void __sanitizer_cov_load16(const void *at) { lab_plain(at, 16, false); }
void __sanitizer_cov_store1(uint8_t *at) { lab_plain(at, 1, true); }
void __sanitizer_cov_store2(uint16_t *at) { lab_plain(at, 2, true); }
void __sanitizer_cov_store4(uint32_t *at) { lab_plain(at, 4, true); }
void __sanitizer_cov_store8(uint64_t *at) { lab_plain(at, 8, true); }
void __sanitizer_cov_store16(void *at) { lab_plain(at, 16, true); }
