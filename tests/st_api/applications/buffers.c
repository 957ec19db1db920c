/* Macros, static initialisers and helpers of buffers, formats and quantization, in the layouts of later tools. */
#include <string.h>

#include "ai_datatypes_defines.h"
#include "ai_platform_interface.h"
#include "application.h"
#include "network.h"
#include "network_data.h"

AI_ALIGNED(4) static ai_u8 activations[AI_NETWORK_DATA_ACTIVATIONS_SIZE];

const unsigned application_input_bytes = AI_NETWORK_IN_1_SIZE_BYTES;
const unsigned application_output_bytes = AI_NETWORK_OUT_1_SIZE_BYTES;

static const ai_float scales[] = {0.5f, 0.25f};
static const ai_u8 points_u8[] = {200, 3};
static const ai_i8 points_s8[] = {-100, 4};
static const ai_intq_info info_u8 = {scales, (ai_handle)points_u8};
static const ai_intq_info info_s8 = {scales, (ai_handle)points_s8};
static ai_intq_info_list list_u8 = {AI_BUFFER_META_FLAG_SCALE_FLOAT | AI_BUFFER_META_FLAG_ZEROPOINT_U8, 2, &info_u8};
static ai_intq_info_list list_s8 = {AI_BUFFER_META_FLAG_SCALE_FLOAT | AI_BUFFER_META_FLAG_ZEROPOINT_S8, 2, &info_s8};
static const ai_buffer_meta_info meta_u8 = AI_BUFFER_META_INFO_INIT(AI_BUFFER_META_HAS_INTQ_INFO, &list_u8);
static const ai_buffer_meta_info meta_s8 = AI_BUFFER_META_INFO_INIT(AI_BUFFER_META_HAS_INTQ_INFO, &list_s8);
static const ai_buffer_meta_info meta_none = AI_BUFFER_META_INFO_INIT(0, NULL);

static ai_buffer image = AI_BUFFER_OBJ_INIT(AI_BUFFER_FORMAT_U8, 6, 4, 3, 1, NULL);
static ai_buffer values = AI_BUFFER_OBJ_INIT_STATIC(ai_float, AI_BUFFER_FORMAT_FLOAT, 1, 1, 2, 1, 1.0f, 2.0f);

static int check_formats(void)
{
    const ai_error error = AI_ERROR_INIT(INVALID_HANDLE, OUT_OF_RANGE);

    CHECK(AI_BUFFER_FMT_SET(AI_BUFFER_FMT_TYPE_Q, 1, 0, 8, 0) == AI_BUFFER_FORMAT_S8);
    CHECK(AI_BUFFER_FMT_SET(AI_BUFFER_FMT_TYPE_Q, 0, 0, 16, 15) == AI_BUFFER_FORMAT_UQ15);
    CHECK(AI_BUFFER_FMT_SET(AI_BUFFER_FMT_TYPE_FLOAT, 1, 1, 32, 0) == AI_BUFFER_FORMAT_FLOAT);
    CHECK(AI_BUFFER_FMT_GET_FBITS(AI_BUFFER_FMT_SET(AI_BUFFER_FMT_TYPE_Q, 1, 0, 8, -3)) == -3);
    CHECK(AI_BUFFER_FMT_SAME(AI_BUFFER_FORMAT_U8 | AI_BUFFER_FMT_FLAG_CONST, AI_BUFFER_FORMAT_U8));
    CHECK(AI_BUFFER_FMT_GET(AI_BUFFER_FORMAT_S8 | AI_BUFFER_FMT_FLAG_IS_IO) == AI_BUFFER_FORMAT_S8);
    CHECK(AI_BUFFER_FMT_GET_FLOAT(AI_BUFFER_FORMAT_FLOAT) && !AI_BUFFER_FMT_GET_FLOAT(AI_BUFFER_FORMAT_S8));
    CHECK(error.type == 0x10 && error.code == 0x20);
    CHECK(AI_VERSION(1, 2, 3) == 0x01020300);
    return 0;
}

static int check_quantization(void)
{
    CHECK(AI_BUFFER_META_INFO_INTQ(&meta_u8) == &list_u8 && AI_BUFFER_META_INFO_INTQ(&meta_none) == NULL);
    CHECK(AI_BUFFER_META_INFO_INTQ((ai_buffer_meta_info *)NULL) == NULL);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_SIZE(&meta_s8) == 2 && AI_BUFFER_META_INFO_INTQ_GET_SIZE(&meta_none) == 0);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_SCALE(&meta_u8, 1) == 0.25f);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_SCALE(&meta_none, 0) == 0.0f);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_SCALE(&meta_u8, 2) == ((AI_PLATFORM_LAYOUT == 2) ? 1.0f : 0.0f));
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(&meta_u8, 0) == 200);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(&meta_s8, 0) == -100);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(&meta_s8, 2) == 0);
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(NULL, 0) == 0);
    CHECK(AI_HAS_INTQ_INFO_LIST(&list_s8) && AI_INTQ_INFO_LIST_SIZE(&list_s8) == 2);
    CHECK(AI_INTQ_INFO_LIST_ZEROPOINT(&list_s8, ai_i8, 1) == 4 &&
          AI_INTQ_INFO_LIST_SCALE(&list_s8, ai_float, 0) == 0.5f);
    return 0;
}

static int check_buffers(void)
{
    CHECK(AI_BUFFER_HEIGHT(&image) == 6 && AI_BUFFER_WIDTH(&image) == 4 && AI_BUFFER_CHANNELS(&image) == 3);
    CHECK(AI_BUFFER_N_BATCHES(&image) == 1 && AI_BUFFER_SIZE(&image) == 72 && AI_BUFFER_DATA(&image, ai_u8) == NULL);
    CHECK(AI_BUFFER_BYTE_SIZE(AI_BUFFER_SIZE(&values), AI_BUFFER_FORMAT(&values)) == 8);
    CHECK(AI_BUFFER_DATA(&values, ai_float)[1] == 2.0f && AI_BUFFER_META_INFO(&values) == NULL);
    return 0;
}

#if AI_PLATFORM_LAYOUT == 2
static int check_arrays(void)
{
    ai_shape_dimension extents[4] = {1, 33, 2, 2};
    ai_buffer bits = AI_BUFFER_INIT(AI_FLAG_NONE, AI_BUFFER_FORMAT_U1,
                                    AI_BUFFER_SHAPE_INIT_FROM_ARRAY(AI_SHAPE_BCWH, 4, extents), 256, NULL, NULL);
    ai_buffer_array array = AI_BUFFER_ARRAY_OBJ_INIT(AI_FLAG_NONE, 1, &image);
    ai_buffer_array none = AI_BUFFER_ARRAY_OBJ_INIT(AI_FLAG_NONE, 0, NULL);
    ai_u32 flags = 0;

    CHECK(AI_BUFFER_SHAPE_SIZE(&bits) == 4 && AI_BUFFER_SHAPE_TYPE(&bits) == AI_SHAPE_BCWH);
    CHECK(AI_BUFFER_SIZE(&bits) == 256 && AI_BUFFER_SIZE_UNPAD(&bits) == 132);
    CHECK(AI_BUFFER_BYTE_SIZE(AI_BUFFER_SIZE(&bits), AI_BUFFER_FORMAT_U1) == 32);
    CHECK(AI_BUFFER_SHAPE_ELEM(&bits, AI_SHAPE_EXTENSION) == 0);
    AI_BUFFER_SET_SHAPE_ELEM(&bits, AI_SHAPE_HEIGHT, 5);
    CHECK(extents[3] == 5);
    CHECK(AI_BUFFER_ARRAY_SANE(&array) && !AI_BUFFER_ARRAY_SANE(&none) && ai_buffer_array_is_empty(&none));
    CHECK(AI_BUFFER_ARRAY_SIZE(&array) == 1 && AI_BUFFER_ARRAY_FLAGS(&array) == AI_FLAG_NONE);
    CHECK(ai_buffer_array_is_valid(&array) && ai_buffer_array_get_byte_size(&array) == 72);
    CHECK(AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(&array, 0, activations) && image.data == activations);
    CHECK(!AI_BUFFER_ARRAY_ITEM_SET_ADDRESS(&array, 1, activations) && AI_BUFFER_ARRAY_ITEM(&none, 0) == NULL);
    image.data = NULL;
    AI_FLAG_SET(flags, 4U);
    CHECK(AI_FLAG_IS_SET(flags, 4U));
    AI_FLAG_UNSET(flags, 4U);
    CHECK(flags == 0);
    return 0;
}

/* Weights and activations as maps, by their tables. */
static int start(ai_handle *network)
{
    ai_network_params params;

    CHECK(AI_NETWORK_DATA_ACTIVATIONS_TABLE_GET()[0] == NULL);
    CHECK(AI_NETWORK_DATA_WEIGHTS_TABLE_GET()[1] == g_network_weights_table[0]);
    CHECK(!ai_network_data_params_get(NULL) && ai_network_data_params_get(&params));
    CHECK(params.map_signature == AI_MAGIC_SIGNATURE && params.map_activations.buffer[0].data == NULL);
    AI_NETWORK_DATA_ACTIVATIONS_TABLE_GET()[0] = activations;
    CHECK(ai_network_create_and_init(network, NULL, AI_NETWORK_DATA_WEIGHTS_TABLE_GET()).type == AI_ERROR_NONE);
    AI_NETWORK_DATA_ACTIVATIONS_TABLE_GET()[0] = NULL;
    return 0;
}
#else
static int start(ai_handle *network)
{
    const ai_network_params params = AI_NETWORK_PARAMS_INIT(AI_NETWORK_DATA_WEIGHTS(ai_network_data_weights_get()),
                                                            AI_NETWORK_DATA_ACTIVATIONS(activations));

    CHECK(ai_network_create(network, AI_NETWORK_DATA_CONFIG).type == AI_ERROR_NONE);
    CHECK(ai_network_init(*network, &params));
    return 0;
}
#endif

int application(const unsigned char *input, unsigned char *output)
{
    ai_handle network = AI_HANDLE_NULL;
    ai_network_report report;

    CHECK(check_formats() == 0 && check_quantization() == 0 && check_buffers() == 0);
#if AI_PLATFORM_LAYOUT == 2
    CHECK(check_arrays() == 0);
#endif
    CHECK(start(&network) == 0 && ai_network_get_report(network, &report));
    CHECK(AI_BUFFER_META_INFO_INTQ_GET_ZEROPOINT(report.inputs[0].meta_info, 0) == -128);
    CHECK(ai_platform_api_get_version().minor == AI_PLATFORM_API_MINOR);
    CHECK(ai_platform_interface_api_get_version().major == 1);
    memcpy(report.inputs[0].data, input, AI_NETWORK_IN_1_SIZE_BYTES);
    CHECK(ai_network_run(network, report.inputs, report.outputs) == 1);
    memcpy(output, report.outputs[0].data, AI_NETWORK_OUT_1_SIZE_BYTES);
    return 0;
}
