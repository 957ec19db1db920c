/*
 * The stai interface of one network, for the files that are generated for it; applications include NAME.h.
 *
 * stai.c keeps the rules of the interface; generated files hold facts and hand each call over.
 */
#ifndef ST_STAI_H
#define ST_STAI_H

#include "stai.h"
#include "st_bridge.h"

STAI_API_DECLARE_BEGIN

/* Applications align activations to this many bytes at least; what the arena needs more is in its size. */
#define ST_STAI_ALIGNMENT 4U

/* What is known of a network; in flash. */
typedef struct {
    const st_model *model;
    const char *name;
    const void *weights; /* stands for the weights, wherever the linker put them */
    const stai_tensor *inputs;
    const stai_tensor *outputs;
    const stai_tensor *activations_tensor;
    const stai_tensor *weights_tensor;
    uint64_t n_macc;
    uint32_t signature;
    stai_flags flags;
    stai_size context_size;
    uint16_t n_inputs;
    uint16_t n_outputs;
    stai_version tool_version;
} st_stai_info;

stai_return_code st_stai_init(const st_stai_info *info, stai_network *network);
stai_return_code st_stai_deinit(const st_stai_info *info, stai_network *network);
stai_return_code st_stai_run(const st_stai_info *info, stai_network *network);
stai_return_code st_stai_get_info(const st_stai_info *info, stai_network *network, stai_network_info *out);
stai_return_code st_stai_get_error(const st_stai_info *info, stai_network *network);
stai_return_code st_stai_get_activations(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                         stai_size *count);
stai_return_code st_stai_get_weights(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                     stai_size *count);
stai_return_code st_stai_get_inputs(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                    stai_size *count);
stai_return_code st_stai_get_outputs(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                     stai_size *count);
stai_return_code st_stai_get_states(const st_stai_info *info, stai_network *network, stai_ptr *pointers,
                                    stai_size *count);
stai_return_code st_stai_set_activations(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                         const stai_size count);
stai_return_code st_stai_set_weights(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                     const stai_size count);
stai_return_code st_stai_set_inputs(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                    const stai_size count);
stai_return_code st_stai_set_outputs(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                     const stai_size count);
stai_return_code st_stai_set_states(const st_stai_info *info, stai_network *network, const stai_ptr *pointers,
                                    const stai_size count);
stai_return_code st_stai_set_callback(const st_stai_info *info, stai_network *network, stai_event_cb callback,
                                      void *cookie);
/* SUCCESS, or what is wrong with the context. */
stai_return_code st_stai_check(const st_stai_info *info, stai_network *network);

STAI_API_DECLARE_END

#endif /* ST_STAI_H */
