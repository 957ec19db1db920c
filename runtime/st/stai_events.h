/* What a callback of a network (stai_<name>_set_callback) is called with. */
#ifndef STAI_EVENTS_H
#define STAI_EVENTS_H

#include "stai.h"

STAI_API_DECLARE_BEGIN

#define STAI_EVENT_NONE 0
#define STAI_EVENT_NODE_START 1
#define STAI_EVENT_NODE_STOP 2

/* Payload of both events; the buffers of operators are not listed. */
typedef struct {
    int32_t node_id; /* position in the order of execution */
    stai_array_const_ptr buffers;
} stai_event_node_start_stop;

STAI_API_DECLARE_END

#endif /* STAI_EVENTS_H */
