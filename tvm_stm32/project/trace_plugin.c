/*
 * QEMU TCG plugin: what was executed between two code addresses, for the cycle model.
 *
 *     -plugin trace.so,begin=0x123,end=0x456,out=FILE[,flash=0xSTART:0xEND][,icache=L:W:B][,dcache=L:W:B]
 *
 * FILE holds the last time round, in lines of decimal numbers (addresses in hexadecimal):
 *
 *     total INSTRUCTIONS                    as icount_plugin.c counts them
 *     block ID ADDRESS INSTRUCTIONS JUMPS LINES
 *     edge FROM TO COUNT                    block TO was executed right after block FROM; block 0 is "outside"
 *     access ADDRESS COUNT SAME BANK UNALIGNED MISSES
 *
 * An access line tells of the instruction at ADDRESS: its data accesses, how many hit the same memory (upper eight bits
 * of the address) as the access before, how many the other of the even and odd words, how many were unaligned, and how
 * many missed the data cache. JUMPS and LINES are the lines of code missing from the instruction cache, the first of a
 * block that was jumped to apart from those that follow in sequence. The caches (lines, ways, bytes of a line; least
 * recently used) are in front of the `flash` ranges only, which a real core reads with wait states.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin_api.h"

int qemu_plugin_version = ICOUNT_API;

enum { MAX_RANGES = 4, MAX_LINES = 4096, TABLE = 1 << 14 };

struct cache {
    uint32_t sets;
    uint32_t ways;
    uint32_t line;
    /* Most recently used first in each set; a line's number plus one, 0 when empty. */
    uint32_t tags[MAX_LINES];
};

struct edge {
    struct block *to;
    uint64_t count;
    struct edge *next;
};

struct block {
    uint64_t address;
    uint64_t instructions;
    uint64_t size;
    unsigned int id;
    uint64_t jumps;
    uint64_t lines;
    struct edge *edges;
    struct block *next;
};

struct access {
    uint64_t address;
    uint64_t count;
    uint64_t same;
    uint64_t bank;
    uint64_t unaligned;
    uint64_t misses;
    struct access *next;
};

static uint64_t begin_address;
static uint64_t end_address;
static const char *output;
static uint64_t flash[MAX_RANGES][2];
static int flash_ranges;
static struct cache icache;
static struct cache dcache;

static struct block *blocks[TABLE];
static struct access *accesses[TABLE];
static struct block outside;
static unsigned int block_count;

static int counting;
static uint64_t total;
static struct block *previous;
static uint64_t last_access;
static uint64_t last_code_line;

static unsigned int slot(uint64_t address)
{
    return (unsigned int)(address >> 1) % TABLE;
}

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        fprintf(stderr, "trace: out of memory\n");
        exit(1);
    }
    return memory;
}

static int in_flash(uint64_t address)
{
    int i;
    for (i = 0; i < flash_ranges; i++) {
        if (address >= flash[i][0] && address < flash[i][1]) {
            return 1;
        }
    }
    return 0;
}

/* Whether the line was there; it is afterwards. */
static int look_up(struct cache *cache, uint64_t number)
{
    const uint32_t tag = (uint32_t)number + 1;
    uint32_t *set = cache->tags + (uint32_t)(number % cache->sets) * cache->ways;
    uint32_t way = 0;
    int hit;

    while (way + 1 < cache->ways && set[way] != tag) {
        way++;
    }
    hit = set[way] == tag;
    memmove(set + 1, set, way * sizeof *set);
    set[0] = tag;
    return hit;
}

static void fetch(struct block *block)
{
    uint64_t line = block->address / icache.line;
    const uint64_t last = (block->address + block->size - 1) / icache.line;
    const int jumped = line != last_code_line && line != last_code_line + 1;

    if (line == last_code_line) {
        line++;
    } else if (!look_up(&icache, line)) {
        *(jumped ? &block->jumps : &block->lines) += 1;
    }
    for (line += line == block->address / icache.line ? 1 : 0; line <= last; line++) {
        block->lines += look_up(&icache, line) ? 0 : 1;
    }
    last_code_line = last;
}

static void follow(struct block *block)
{
    struct edge **place = &previous->edges;
    struct edge *edge;

    while (*place != NULL && (*place)->to != block) {
        place = &(*place)->next;
    }
    edge = *place;
    if (edge == NULL) {
        edge = allocate(sizeof *edge);
        edge->to = block;
        *place = edge;
    }
    edge->count++;
    previous = block;
}

static void reset(void)
{
    struct block *block;
    struct access *access;
    struct edge *edge;
    int i;

    for (i = 0; i < TABLE; i++) {
        for (block = blocks[i]; block != NULL; block = block->next) {
            block->jumps = block->lines = 0;
            for (edge = block->edges; edge != NULL; edge = edge->next) {
                edge->count = 0;
            }
        }
        for (access = accesses[i]; access != NULL; access = access->next) {
            access->count = access->same = access->bank = access->unaligned = access->misses = 0;
        }
    }
    for (edge = outside.edges; edge != NULL; edge = edge->next) {
        edge->count = 0;
    }
    total = 0;
}

static void write_edges(FILE *file, const struct block *block)
{
    const struct edge *edge;
    for (edge = block->edges; edge != NULL; edge = edge->next) {
        if (edge->count != 0) {
            fprintf(file, "edge %u %u %" PRIu64 "\n", block->id, edge->to->id, edge->count);
        }
    }
}

static void write_out(void)
{
    FILE *file = fopen(output, "w");
    const struct block *block;
    const struct access *access;
    int i;

    if (file == NULL) {
        fprintf(stderr, "trace: cannot write %s\n", output);
        exit(1);
    }
    fprintf(file, "total %" PRIu64 "\n", total);
    write_edges(file, &outside);
    for (i = 0; i < TABLE; i++) {
        for (block = blocks[i]; block != NULL; block = block->next) {
            if (block->edges != NULL) {
                fprintf(file, "block %u %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", block->id, block->address,
                        block->instructions, block->jumps, block->lines);
                write_edges(file, block);
            }
        }
        for (access = accesses[i]; access != NULL; access = access->next) {
            if (access->count != 0) {
                fprintf(file, "access %" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                        access->address, access->count, access->same, access->bank, access->unaligned, access->misses);
            }
        }
    }
    fclose(file);
}

static void on_block(unsigned int cpu, void *data)
{
    struct block *block = data;

    (void)cpu;
    if (block->address == begin_address) {
        reset();
        counting = 1;
        previous = &outside;
    }
    if (!counting) {
        return;
    }
    if (block->address == end_address) {
        follow(&outside);
        counting = 0;
        write_out();
        return;
    }
    total += block->instructions;
    follow(block);
    if (icache.line != 0 && in_flash(block->address)) {
        fetch(block);
    }
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct access *access = data;
    const uint64_t changed = address ^ last_access;

    (void)cpu;
    if (!counting) {
        return;
    }
    access->count++;
    access->same += changed >> 24 == 0 ? 1 : 0;
    access->bank += changed >> 2 & 1;
    access->unaligned += (address & ((UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1)) != 0 ? 1 : 0;
    if (dcache.line != 0 && in_flash(address)) {
        access->misses += look_up(&dcache, address / dcache.line) ? 0 : 1;
    }
    last_access = address;
}

static struct access *access_of(uint64_t address)
{
    struct access **place = &accesses[slot(address)];

    while (*place != NULL && (*place)->address != address) {
        place = &(*place)->next;
    }
    if (*place == NULL) {
        *place = allocate(sizeof **place);
        (*place)->address = address;
    }
    return *place;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    const uint64_t address = qemu_plugin_tb_vaddr(tb);
    const size_t instructions = qemu_plugin_tb_n_insns(tb);
    struct block **place = &blocks[slot(address)];
    size_t i;

    (void)id;
    while (*place != NULL && ((*place)->address != address || (*place)->instructions != instructions)) {
        place = &(*place)->next;
    }
    if (*place == NULL) {
        *place = allocate(sizeof **place);
        (*place)->address = address;
        (*place)->instructions = instructions;
        (*place)->id = ++block_count;
    }
    (*place)->size = 0;
    for (i = 0; i < instructions; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        (*place)->size += qemu_plugin_insn_size(insn);
        qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         access_of(qemu_plugin_insn_vaddr(insn)));
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, *place);
}

static int read_cache(struct cache *cache, const char *text)
{
    unsigned int lines;
    unsigned int ways;
    unsigned int line;

    if (sscanf(text, "%u:%u:%u", &lines, &ways, &line) != 3 || lines > MAX_LINES || ways == 0 || lines < ways ||
        line == 0) {
        return 0;
    }
    cache->ways = ways;
    cache->sets = lines / ways;
    cache->line = line;
    return 1;
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
    int good = 1;
    int i;

    (void)info;
    for (i = 0; i < argc; i++) {
        const char *value = strchr(argv[i], '=');
        value = value != NULL ? value + 1 : "";
        if (strncmp(argv[i], "begin=", 6) == 0) {
            begin_address = strtoull(value, NULL, 0);
        } else if (strncmp(argv[i], "end=", 4) == 0) {
            end_address = strtoull(value, NULL, 0);
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            output = strdup(value);
        } else if (strncmp(argv[i], "flash=", 6) == 0 && flash_ranges < MAX_RANGES) {
            good &= sscanf(value, "%" SCNi64 ":%" SCNi64, (int64_t *)&flash[flash_ranges][0],
                           (int64_t *)&flash[flash_ranges][1]) == 2;
            flash_ranges++;
        } else if (strncmp(argv[i], "icache=", 7) == 0) {
            good &= read_cache(&icache, value);
        } else if (strncmp(argv[i], "dcache=", 7) == 0) {
            good &= read_cache(&dcache, value);
        }
    }
    if (begin_address == end_address || output == NULL || !good) {
        fprintf(stderr, "trace: expected begin=ADDRESS,end=ADDRESS,out=FILE\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
