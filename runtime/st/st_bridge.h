/*
 * What ST's interfaces need of the ai_* runtime. ai_runtime.h and ai_platform.h share names (ai_handle, ai_error, ..)
 * and cannot meet in one file, so everything here is of plain types, and only st_bridge.c includes ai_runtime.h.
 *
 * Tensors are numbered: inputs first, then outputs.
 */
#ifndef ST_BRIDGE_H
#define ST_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A network of the ai_* runtime. `info` is its ai_model_info; each network generated for ST's interfaces has one. */
typedef struct {
    const void *info;
    void (*weights_set)(const void *file); /* NULL: the weights are part of the image */
} st_model;

/* Pointers that an instance beside the static one takes, whatever ai_runtime.h makes of them. */
#define ST_INSTANCE_POINTERS(n_tensors) (6U + 2U * (n_tensors))

typedef struct {
    const char *signature; /* sha256 of the model file */
    const char *tool_version;
    const char *revision;
    uint32_t weights_size;
    uint32_t activations_size;
    uint32_t macs;
    uint16_t n_nodes;
    uint8_t n_inputs;
    uint8_t n_outputs;
} st_facts;

void st_get_facts(const st_model *model, st_facts *facts);

/* Start of the weights; NULL: the network has none, or they are missing. Weights outside of the image are checked. */
const uint8_t *st_weights(const st_model *model);
int st_weights_missing(const st_model *model);               /* 1: expected outside of the image and not there */
int st_set_weights(const st_model *model, const void *file); /* 0: the network takes its weights from that file */

/* Version of the ai_* runtime, major << 16 | minor << 8, and as text. */
uint32_t st_runtime_version(void);
const char *st_runtime_revision(void);

/* The first 8 digits of the signature as a number. */
uint32_t st_signature(const st_model *model);

/* Name and type of an operator; 0 when there is none of that index or the network was compiled without AI_OBSERVER. */
int st_get_node(const st_model *model, uint32_t index, const char **name, const char **type);

/*
 * An instance on an arena of that size and alignment: in `memory` (`size` bytes), or the static one when NULL. NULL
 * when that is in use or something is misaligned or missing.
 */
void *st_open(const st_model *model, void *memory, size_t size, uint8_t *arena);
void st_close(void *instance);

/* The arena in memory that an application has not aligned to what the network asks for. */
uint8_t *st_align(const st_model *model, void *memory);

/* Whether a tensor has a place in the arena. */
int st_has_home(const st_model *model, uint32_t tensor);

/* Where a tensor lies in an arena; NULL: nowhere, the application supplies its memory. */
void *st_home_in(const st_model *model, uint8_t *arena, uint32_t tensor);
void *st_home(void *instance, uint32_t tensor); /* in that of an instance */

/* Bytes of a tensor. */
uint32_t st_size(const st_model *model, uint32_t tensor);

/* The instance's arena back to the variables' initial values. */
void st_reset(void *instance);

typedef enum { ST_PLACED = 0, ST_NULL = 1, ST_MISALIGNED = 2 } st_placement;

/* Whether `data` is memory a tensor can have. */
st_placement st_check(const st_model *model, uint32_t tensor, const void *data);

/*
 * Before st_run, each input and output is placed on memory of the application, or on its home; after it, each output is
 * collected. Data is copied only for those few tensors that are part of another one and cannot move.
 */
st_placement st_place(void *instance, uint32_t tensor, void *data);
int st_run(void *instance); /* 0: done */
void st_collect(void *instance, uint32_t tensor, void *data);

/* Called before (`stop` 0) and after each operator. The hook stays in memory of the caller; NULL: no more calls. */
typedef struct {
    void (*call)(void *cookie, uint32_t index, int stop);
    void *cookie;
} st_hook;

int st_observe(void *instance, st_hook *hook); /* 0: will be called */

#ifdef __cplusplus
}
#endif

#endif /* ST_BRIDGE_H */
