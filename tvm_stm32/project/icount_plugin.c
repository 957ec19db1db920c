/*
 * QEMU TCG plugin: instructions executed between two code addresses, each time round.
 *
 *     -plugin icount.so,begin=0x123,end=0x456,out=FILE
 *
 * FILE gets one decimal number a line: the instructions from the first one at `begin` (included) to the first one at
 * `end` (not included). Both must be function entries, so that a translation block starts there. Instructions whose IT
 * condition fails count, as they do for a core's own instruction counter.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin_api.h"

int qemu_plugin_version = ICOUNT_API;

static uint64_t begin_address;
static uint64_t end_address;
static uint64_t count;
static int counting;
static FILE *output;

static void on_begin(unsigned int cpu, void *data)
{
    (void)cpu;
    count = (uint64_t)(uintptr_t)data;
    counting = 1;
}

static void on_block(unsigned int cpu, void *data)
{
    (void)cpu;
    count += (uint64_t)(uintptr_t)data;
}

static void on_end(unsigned int cpu, void *data)
{
    (void)cpu;
    (void)data;
    if (counting) {
        fprintf(output, "%" PRIu64 "\n", count);
        fflush(output);
    }
    counting = 0;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    const uint64_t address = qemu_plugin_tb_vaddr(tb);
    execute_callback callback = on_block;

    (void)id;
    if (address == begin_address) {
        callback = on_begin;
    } else if (address == end_address) {
        callback = on_end;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, QEMU_PLUGIN_CB_NO_REGS,
                                         (void *)(uintptr_t)qemu_plugin_tb_n_insns(tb));
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
    int i;

    (void)info;
    for (i = 0; i < argc; i++) {
        if (strncmp(argv[i], "begin=", 6) == 0) {
            begin_address = strtoull(argv[i] + 6, NULL, 0);
        } else if (strncmp(argv[i], "end=", 4) == 0) {
            end_address = strtoull(argv[i] + 4, NULL, 0);
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            output = fopen(argv[i] + 4, "w");
        }
    }
    if (begin_address == end_address || output == NULL) {
        fprintf(stderr, "icount: expected begin=ADDRESS,end=ADDRESS,out=FILE\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
